// The c10d backend: torch's own ProcessGroup on the outside, one Python object (prism.gpu.communicator) on the inside.
//
// Backend forwards each call to the communicator's method of the same name. Work wraps a Python operation
// (prism.gpu.work) and owns the future that torch's C++ callers wait on; its future is typed List[Tensor], which DDP's
// built-in hooks insist on.

#include <pybind11/chrono.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PyProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/extension.h>
#include <torch/version.h>

#include <algorithm>
#include <utility>

namespace py = pybind11;

namespace prism {
namespace {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Future = c10::ivalue::Future;

class Work final : public c10d::Work {
 public:
  // `gpus`: the devices of the outputs; who takes them from the future waits for the streams that filled them.
  Work(py::object operation, const std::vector<c10::DeviceIndex>& gpus)
      : operation_(std::move(operation)),
        future_(c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), devices(gpus))) {}

  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  ~Work() override {
    py::gil_scoped_acquire gil;
    operation_ = py::object();
  }

  // -- what the operation does with its future; callbacks run here, so the GIL is given up --

  void complete(const Tensors& outputs) {
    py::gil_scoped_release nogil;
    future_->markCompleted(c10::IValue(c10::List<at::Tensor>(c10::ArrayRef<at::Tensor>(outputs))));
  }

  void fail(const std::string& reason) {
    py::gil_scoped_release nogil;
    future_->setError(std::make_exception_ptr(std::runtime_error(reason)));
  }

  bool done() const { return future_->completed(); }

  void join() const {
    if (PyGILState_Check() != 0) {
      py::gil_scoped_release nogil;
      future_->waitAndThrow();
    } else {
      future_->waitAndThrow();
    }
  }

  // -- what torch calls --

  bool wait(std::chrono::milliseconds /*timeout*/ = kNoTimeout) override {
    py::gil_scoped_acquire gil;
    operation_.attr("wait")();
    return true;
  }

  void synchronize() override { wait(); }

  bool isCompleted() override {
    if (done()) {
      return true;
    }
    py::gil_scoped_acquire gil;
    return operation_.attr("poll")().cast<bool>();
  }

  bool isSuccess() const override { return done() && !future_->hasError(); }

  std::exception_ptr exception() const override { return future_->exception_ptr(); }

  int sourceRank() const override {
    py::gil_scoped_acquire gil;
    return operation_.attr("source").cast<int>();
  }

  Tensors result() override {
    py::gil_scoped_acquire gil;
    return operation_.attr("outputs").cast<Tensors>();
  }

  // Inside a backward pass it is DDP's reducer that asks, and it will wait for the future where nobody sees it. A
  // callback queued now runs before the reducer's own, so the wait happens here, and is recorded.
  c10::intrusive_ptr<Future> getFuture() override {
    if (torch::autograd::get_current_graph_task_id() != -1) {
      auto self = c10::intrusive_ptr<Work>::reclaim_copy(this);
      torch::autograd::Engine::get_default_engine().queue_callback([self] { self->wait_for_future(); });
    }
    return future_;
  }

 private:
  void wait_for_future() {
    py::gil_scoped_acquire gil;
    operation_.attr("wait_for_future")();
  }

  static std::vector<c10::Device> devices(const std::vector<c10::DeviceIndex>& gpus) {
    std::vector<c10::Device> found;
    for (const auto index : gpus) {
      found.emplace_back(c10::kCUDA, index);
    }
    return found;
  }

  py::object operation_;
  c10::intrusive_ptr<Future> future_;
};

struct BackendOptions final : c10d::Backend::Options {
  BackendOptions() : c10d::Backend::Options("prism") {}
};

class Backend final : public c10d::Backend {
 public:
  Backend(py::object communicator, int rank, int size)
      : c10d::Backend(rank, size), communicator_(std::move(communicator)) {}

  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  ~Backend() override {
    py::gil_scoped_acquire gil;
    communicator_ = py::object();
  }

  const std::string getBackendName() const override { return "prism"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return ask<bool>("coalesces"); }
  void setTimeout(std::chrono::milliseconds /*timeout*/) override {}
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return ask<uint64_t>("posted"); }
  void shutdown() override {}
  void abort() override {}

  void startCoalescing() override {
    py::gil_scoped_acquire gil;
    communicator_.attr("start_coalescing")();
  }
  WorkPtr endCoalescing() override { return post("end_coalescing"); }

  WorkPtr broadcast(Tensors& t, const c10d::BroadcastOptions& o) override { return post("broadcast", t, o); }
  WorkPtr allreduce(Tensors& t, const c10d::AllreduceOptions& o) override { return post("allreduce", t, o); }
  WorkPtr allreduce_coalesced(Tensors& t, const c10d::AllreduceCoalescedOptions& o) override {
    return post("allreduce_coalesced", t, o);
  }
  WorkPtr reduce(Tensors& t, const c10d::ReduceOptions& o) override { return post("reduce", t, o); }
  WorkPtr allgather(TensorLists& out, Tensors& in, const c10d::AllgatherOptions& o) override {
    return post("allgather", out, in, o);
  }
  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions& o) override {
    return post("all_gather_single", out, in, o);
  }
  WorkPtr allgather_coalesced(TensorLists& out, Tensors& in, const c10d::AllgatherOptions& o) override {
    return post("allgather_coalesced", out, in, o);
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& out, Tensors& in, const c10d::AllgatherOptions& o) override {
    return post("all_gather_single_coalesced", out, in, o);
  }
  WorkPtr gather(TensorLists& out, Tensors& in, const c10d::GatherOptions& o) override {
    return post("gather", out, in, o);
  }
  WorkPtr scatter(Tensors& out, TensorLists& in, const c10d::ScatterOptions& o) override {
    return post("scatter", out, in, o);
  }
  WorkPtr reduce_scatter(Tensors& out, TensorLists& in, const c10d::ReduceScatterOptions& o) override {
    return post("reduce_scatter", out, in, o);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in, const c10d::ReduceScatterOptions& o) override {
    return post("reduce_scatter_single", out, in, o);
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in, const c10d::ReduceScatterOptions& o) override {
    return post("reduce_scatter_single_coalesced", out, in, o);
  }
  WorkPtr alltoall_base(
      at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_splits, std::vector<int64_t>& in_splits,
      const c10d::AllToAllOptions& o) override {
    return post("all_to_all_single", out, in, out_splits, in_splits, o);
  }
  WorkPtr alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& o) override {
    return post("alltoall", out, in, o);
  }
  WorkPtr send(Tensors& t, int destination, int tag) override { return post("send", t, destination, tag); }
  WorkPtr recv(Tensors& t, int source, int tag) override { return post("recv", t, source, tag); }
  WorkPtr recvAnysource(Tensors& t, int tag) override { return post("recv_anysource", t, tag); }
  WorkPtr barrier(const c10d::BarrierOptions& o) override { return post("barrier", o); }
  void monitoredBarrier(const c10d::BarrierOptions& o, bool /*wait_all_ranks*/) override { post("barrier", o)->wait(); }

  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& /*store*/, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override {
    auto mine = std::find(ranks.begin(), ranks.end(), rank_);
    if (mine == ranks.end()) {
      return nullptr;
    }
    const auto rank = static_cast<int>(mine - ranks.begin());
    py::gil_scoped_acquire gil;
    return c10::make_intrusive<Backend>(
        communicator_.attr("split")(options->group_name, ranks), rank, static_cast<int>(ranks.size()));
  }

 private:
  template <class... Args>
  WorkPtr post(const char* method, Args&&... args) {
    py::gil_scoped_acquire gil;
    return communicator_.attr(method)(std::forward<Args>(args)...).template cast<WorkPtr>();
  }

  template <class T>
  T ask(const char* attribute) const {
    py::gil_scoped_acquire gil;
    return communicator_.attr(attribute).template cast<T>();
  }

  py::object communicator_;
  c10::intrusive_ptr<BackendOptions> options_ = c10::make_intrusive<BackendOptions>();
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
      .def("join", &prism::Work::join);
  py::class_<prism::Backend, c10::intrusive_ptr<prism::Backend>>(m, "Backend", c10d.attr("Backend"))
      .def(py::init<py::object, int, int>(), py::arg("communicator"), py::arg("rank"), py::arg("size"))
      .def_property_readonly("posted", &prism::Backend::getSequenceNumberForGroup);
}
