#include "api.h"

#include <cstdio>
#include <functional>

#include "device_engine.h"

namespace {

using namespace pruned::device;

std::unique_ptr<DeviceEngine> the_engine;
std::atomic<bool> is_active = false;
thread_local std::string error_text;

int guarded(const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    error_text = error.what();
    return -1;
  }
}

DeviceEngine& engine() {
  if (the_engine == nullptr) {
    throw std::logic_error("prism_device_begin() was not called");
  }
  return *the_engine;
}

Id id_of(const std::uint8_t* bytes) {
  Id id;
  std::copy_n(bytes, id.size(), id.begin());
  return id;
}

std::int32_t kind_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFine:
      return PRISM_DEVICE_FINE;
    case Verdict::kMismatch:
      return PRISM_DEVICE_MISMATCH;
    case Verdict::kAborted:
      return PRISM_DEVICE_ABORTED;
    default:
      return PRISM_DEVICE_FAILED;
  }
}

}  // namespace

const char* prism_device_error(void) { return error_text.c_str(); }

int prism_device_begin(const prism_device_setup* setup) {
  return guarded([&] {
    if (the_engine != nullptr) {
      throw std::logic_error("prism_device_begin() was called twice");
    }
    the_engine = std::make_unique<DeviceEngine>(*setup);
    is_active = true;
  });
}

int prism_device_group(const char* name, std::int32_t size, std::int32_t rank, const std::int32_t* sandbox,
                       std::int32_t sandbox_size, std::int64_t reserve_bytes) {
  return guarded(
      [&] { engine().add_group(name, size, rank, std::vector<int>(sandbox, sandbox + sandbox_size), reserve_bytes); });
}

int prism_device_planned(const char* group, const prism_device_op* op) {
  return guarded([&] { engine().plan(group, *op); });
}

int prism_device_identify(const std::uint8_t id[128], const char* group, const std::int32_t* ranks,
                          std::int32_t ranks_size) {
  return guarded([&] { engine().identify(id_of(id), group, std::vector<int>(ranks, ranks + ranks_size)); });
}

int prism_device_start(void) {
  return guarded([] { engine().start(); });
}

int prism_device_state(prism_device_report* report) {
  return guarded([&] {
    const Report first = engine().state();
    *report = {};
    report->kind = kind_of(first.kind);
    report->number = first.number;
    std::snprintf(report->group, sizeof report->group, "%s", first.group.c_str());
    std::snprintf(report->text, sizeof report->text, "%s", first.text.c_str());
  });
}

int prism_device_measure(prism_device_figures* figures) {
  return guarded([&] { *figures = engine().figures(); });
}

void prism_device_end(void) {
  is_active = false;
  the_engine.reset();
}

namespace pruned::device {

bool active() { return is_active; }

Group* group_of(const std::uint8_t (&id)[128], int size, int rank) {
  return active() ? the_engine->communicator(id_of(id), size, rank) : nullptr;
}

}  // namespace pruned::device
