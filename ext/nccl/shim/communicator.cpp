#include "communicator.h"

#include <string>

#include "failure.h"

namespace pruned::shim {
namespace {

Result result_of(device::Verdict verdict) {
  switch (verdict) {
    case device::Verdict::kFine:
      return kSuccess;
    case device::Verdict::kMismatch:
      return kInvalidUsage;
    case device::Verdict::kAborted:
      return kRemoteError;
    case device::Verdict::kFailed:
      return kUnhandledCudaError;
  }
  return kInternalError;
}

}  // namespace

Result Communicator::state() const {
  const device::Verdict verdict = group_->error();
  if (verdict != device::Verdict::kFine) {
    note_failure(group_->text());
  }
  return result_of(verdict);
}

const char* Communicator::text() const {
  static thread_local std::string copy;
  copy = group_->text();
  return copy.c_str();
}

void Communicator::check(device::Verdict verdict) const {
  if (verdict != device::Verdict::kFine) {
    throw Failure(result_of(verdict), group_->text());
  }
}

Result made(const Config* config) { return config != nullptr && config->blocking == 0 ? kInProgress : kSuccess; }

}  // namespace pruned::shim
