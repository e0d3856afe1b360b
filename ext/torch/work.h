// The work object of an operation of PRISM's: it wraps a Python operation (prism.gpu.group.work), and owns the future
// that torch's C++ callers wait on. The future is typed List[Tensor], which DDP's built-in hooks insist on.

#pragma once

#include <pybind11/chrono.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace prism {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Future = c10::ivalue::Future;

/// Whether this thread is inside a backward pass. It is DDP's reducer that asks for a future there, and it will wait
/// for it where nobody sees it; a callback queued now runs before the reducer's own, so the wait is told there.
inline bool goes_backward() { return torch::autograd::get_current_graph_task_id() != -1; }

inline void queue_callback(std::function<void()> callback) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(callback));
}

class [[gnu::visibility("hidden")]] Work final : public c10d::Work {
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

  /// Whether anybody has asked for the future, on which there may be callbacks then.
  bool watched() const { return watched_.load(); }

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

  c10::intrusive_ptr<Future> getFuture() override {
    watched_.store(true);
    if (goes_backward()) {
      auto self = c10::intrusive_ptr<Work>::reclaim_copy(this);
      queue_callback([self] { self->wait_for_future(); });
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
  std::atomic<bool> watched_{false};
};

}  // namespace prism
