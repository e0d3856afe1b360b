// The c10d backend: torch's own ProcessGroup on the outside, one Python object (prism.gpu.group.communicator) inside.
//
// Backend forwards each call to the communicator's method of the same name, whose answer is the work object. Where it
// has a carrier, another backend, the answer is what is to be told of the operation, and the carrier does the work.

#include <pybind11/chrono.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PyProcessGroup.hpp>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "carried_work.h"
#include "work.h"

namespace prism {
namespace {

using TensorLists = std::vector<Tensors>;
using c10d::Backend;
using BackendPtr = c10::intrusive_ptr<Backend>;

/// What ends a carrier's threads: they may be asking a store in Python, for which they need the GIL.
template <class Body>
void without_gil(const Body& body) {
  std::optional<py::gil_scoped_release> nogil;
  if (PyGILState_Check() != 0) {
    nogil.emplace();
  }
  body();
}

struct BackendOptions final : Backend::Options {
  BackendOptions() : Backend::Options("prism") {}
};

class PrismBackend final : public Backend {
 public:
  PrismBackend(py::object communicator, int rank, int size, BackendPtr carrier)
      : Backend(rank, size), communicator_(std::move(communicator)), carrier_(std::move(carrier)) {}

  PrismBackend(const PrismBackend&) = delete;
  PrismBackend& operator=(const PrismBackend&) = delete;

  ~PrismBackend() override {
    {
      py::gil_scoped_acquire gil;
      communicator_ = py::object();
    }
    without_gil([this] { carrier_.reset(); });
  }

  const std::string getBackendName() const override { return "prism"; }
  c10::intrusive_ptr<Backend::Options> getBackendOptions() override {
    return carrier_ ? carrier_->getBackendOptions() : options_;
  }
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return ask<bool>("coalesces"); }
  void setTimeout(std::chrono::milliseconds timeout) override {
    if (carrier_) {
      carrier_->setTimeout(timeout);
    }
  }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return ask<uint64_t>("posted"); }
  void eagerConnectSingleDevice(at::Device device) override {
    if (carrier_) {
      carrier_->eagerConnectSingleDevice(device);
    }
  }
  void shutdown() override {
    if (carrier_) {
      without_gil([this] { carrier_->shutdown(); });
    }
  }
  void abort() override {
    if (carrier_) {
      without_gil([this] { carrier_->abort(); });
    }
  }

  void startCoalescing() override {
    {
      py::gil_scoped_acquire gil;
      communicator_.attr("start_coalescing")();
    }
    if (carrier_) {
      carrier_->startCoalescing();
    }
  }
  WorkPtr endCoalescing() override {
    return post("end_coalescing", [](Backend& b) { return b.endCoalescing(); });
  }

  WorkPtr broadcast(Tensors& t, const c10d::BroadcastOptions& o) override {
    return post("broadcast", [&](Backend& b) { return b.broadcast(t, o); }, t, o);
  }
  WorkPtr allreduce(Tensors& t, const c10d::AllreduceOptions& o) override {
    return post("allreduce", [&](Backend& b) { return b.allreduce(t, o); }, t, o);
  }
  WorkPtr allreduce_coalesced(Tensors& t, const c10d::AllreduceCoalescedOptions& o) override {
    return post("allreduce_coalesced", [&](Backend& b) { return b.allreduce_coalesced(t, o); }, t, o);
  }
  WorkPtr reduce(Tensors& t, const c10d::ReduceOptions& o) override {
    return post("reduce", [&](Backend& b) { return b.reduce(t, o); }, t, o);
  }
  WorkPtr allgather(TensorLists& out, Tensors& in, const c10d::AllgatherOptions& o) override {
    return post("allgather", [&](Backend& b) { return b.allgather(out, in, o); }, out, in, o);
  }
  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions& o) override {
    return post("all_gather_single", [&](Backend& b) { return b._allgather_base(out, in, o); }, out, in, o);
  }
  WorkPtr allgather_coalesced(TensorLists& out, Tensors& in, const c10d::AllgatherOptions& o) override {
    return post("allgather_coalesced", [&](Backend& b) { return b.allgather_coalesced(out, in, o); }, out, in, o);
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& out, Tensors& in, const c10d::AllgatherOptions& o) override {
    return post(
        "all_gather_single_coalesced", [&](Backend& b) { return b.allgather_into_tensor_coalesced(out, in, o); }, out,
        in, o);
  }
  WorkPtr gather(TensorLists& out, Tensors& in, const c10d::GatherOptions& o) override {
    return post("gather", [&](Backend& b) { return b.gather(out, in, o); }, out, in, o);
  }
  WorkPtr scatter(Tensors& out, TensorLists& in, const c10d::ScatterOptions& o) override {
    return post("scatter", [&](Backend& b) { return b.scatter(out, in, o); }, out, in, o);
  }
  WorkPtr reduce_scatter(Tensors& out, TensorLists& in, const c10d::ReduceScatterOptions& o) override {
    return post("reduce_scatter", [&](Backend& b) { return b.reduce_scatter(out, in, o); }, out, in, o);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in, const c10d::ReduceScatterOptions& o) override {
    return post("reduce_scatter_single", [&](Backend& b) { return b._reduce_scatter_base(out, in, o); }, out, in, o);
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in, const c10d::ReduceScatterOptions& o) override {
    return post(
        "reduce_scatter_single_coalesced", [&](Backend& b) { return b.reduce_scatter_tensor_coalesced(out, in, o); },
        out, in, o);
  }
  WorkPtr alltoall_base(
      at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_splits, std::vector<int64_t>& in_splits,
      const c10d::AllToAllOptions& o) override {
    return post(
        "all_to_all_single", [&](Backend& b) { return b.alltoall_base(out, in, out_splits, in_splits, o); }, out, in,
        out_splits, in_splits, o);
  }
  WorkPtr alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& o) override {
    return post("alltoall", [&](Backend& b) { return b.alltoall(out, in, o); }, out, in, o);
  }
  WorkPtr send(Tensors& t, int destination, int tag) override {
    return post("send", [&](Backend& b) { return b.send(t, destination, tag); }, t, destination, tag);
  }
  WorkPtr recv(Tensors& t, int source, int tag) override {
    return post("recv", [&](Backend& b) { return b.recv(t, source, tag); }, t, source, tag);
  }
  WorkPtr recvAnysource(Tensors& t, int tag) override {
    return post("recv_anysource", [&](Backend& b) { return b.recvAnysource(t, tag); }, t, tag);
  }
  WorkPtr barrier(const c10d::BarrierOptions& o) override {
    return post("barrier", [&](Backend& b) { return b.barrier(o); }, o);
  }
  void monitoredBarrier(const c10d::BarrierOptions& o, bool /*wait_all_ranks*/) override { barrier(o)->wait(); }

  BackendPtr split(
      const c10::intrusive_ptr<c10d::Store>& /*store*/, const std::vector<int>& ranks,
      const c10::intrusive_ptr<Backend::Options>& options) override {
    auto mine = std::find(ranks.begin(), ranks.end(), rank_);
    if (mine == ranks.end()) {
      return nullptr;
    }
    const auto rank = static_cast<int>(mine - ranks.begin()), size = static_cast<int>(ranks.size());
    py::gil_scoped_acquire gil;
    auto part = communicator_.attr("split")(options->group_name, ranks);
    auto carrier = carrier_ ? part.attr("carrier")(options).cast<BackendPtr>() : nullptr;
    return c10::make_intrusive<PrismBackend>(std::move(part), rank, size, std::move(carrier));
  }

 private:
  template <class Carry, class... Args>
  WorkPtr post(const char* method, const Carry& carry, Args&&... args) {
    py::gil_scoped_acquire gil;
    py::object answer = communicator_.attr(method)(std::forward<Args>(args)...);
    if (!carrier_ || py::isinstance<c10d::Work>(answer)) {
      return answer.cast<WorkPtr>();
    }
    WorkPtr work;
    {
      py::gil_scoped_release nogil;
      work = carry(*carrier_);
    }
    answer.attr("begun")();
    if (work) {
      work = c10::make_intrusive<CarriedWork>(std::move(answer), std::move(work));
    }
    return work;
  }

  template <class T>
  T ask(const char* attribute) const {
    py::gil_scoped_acquire gil;
    return communicator_.attr(attribute).template cast<T>();
  }

  py::object communicator_;
  BackendPtr carrier_;
  c10::intrusive_ptr<Backend::Options> options_ = c10::make_intrusive<BackendOptions>();
};

}  // namespace
}  // namespace prism

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::module::import("torch.distributed");
  m.attr("TORCH") = TORCH_VERSION;
  auto c10d = py::module::import("torch._C._distributed_c10d");
  py::class_<prism::Work, c10::intrusive_ptr<prism::Work>>(m, "Work", c10d.attr("Work"))
      .def(py::init<py::object, std::vector<c10::DeviceIndex>>(), py::arg("operation"),
           py::arg("gpus") = std::vector<c10::DeviceIndex>())
      .def("complete", &prism::Work::complete, py::arg("outputs"))
      .def("fail", &prism::Work::fail, py::arg("reason"))
      .def("done", &prism::Work::done)
      .def("join", &prism::Work::join)
      .def("watched", &prism::Work::watched);
  py::class_<prism::PrismBackend, c10::intrusive_ptr<prism::PrismBackend>>(m, "Backend", c10d.attr("Backend"))
      .def(py::init<py::object, int, int, c10::intrusive_ptr<c10d::Backend>>(), py::arg("communicator"),
           py::arg("rank"), py::arg("size"), py::arg("carrier") = py::none())
      .def_property_readonly("posted", &prism::PrismBackend::getSequenceNumberForGroup)
      .def("perform_nocolor_split", [](prism::PrismBackend&, py::object /*device*/) {});
}
