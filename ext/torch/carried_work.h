// The work object of an operation that another backend carries out: torch's own NCCL process group, in an emulation.
//
// All is that backend's, its streams and futures above all. What the program waits for is told to a Python object
// (prism.gpu.emulation.device.told) before it is waited for, and when the program goes on.

#pragma once

#include <utility>

#include "work.h"

namespace prism {

class [[gnu::visibility("hidden")]] CarriedWork final : public c10d::Work {
 public:
  CarriedWork(py::object told, WorkPtr carried)
      : c10d::Work(-1, carried->retrieveOpType()), told_(std::move(told)), carried_(std::move(carried)) {}

  CarriedWork(const CarriedWork&) = delete;
  CarriedWork& operator=(const CarriedWork&) = delete;

  ~CarriedWork() override {
    py::gil_scoped_acquire gil;
    told_ = py::object();
  }

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    tell("wait");
    const bool done = carried_->wait(timeout);
    tell("go_on");
    return done;
  }

  void synchronize() override {
    tell("wait");
    carried_->synchronize();
    tell("go_on");
  }

  void blockCurrentStream() override {
    tell("wait");
    carried_->blockCurrentStream();
    tell("go_on");
  }

  c10::intrusive_ptr<Future> getFuture() override {
    if (goes_backward()) {
      auto self = c10::intrusive_ptr<CarriedWork>::reclaim_copy(this);
      queue_callback([self] {
        self->tell("wait_for_future");
        self->carried_->getFuture()->wait();  // as the reducer does next; what follows is the program's time again
        self->tell("go_on");
      });
    }
    return carried_->getFuture();
  }

  bool isCompleted() override { return carried_->isCompleted(); }
  bool isSuccess() const override { return carried_->isSuccess(); }
  std::exception_ptr exception() const override { return carried_->exception(); }
  int sourceRank() const override { return carried_->sourceRank(); }
  Tensors result() override { return carried_->result(); }
  void abort() override { carried_->abort(); }
  c10::intrusive_ptr<Future> getFutureResult() override { return carried_->getFutureResult(); }
  float getDuration() const override { return carried_->getDuration(); }
  uint64_t getSequencenumber() const override { return carried_->getSequencenumber(); }

 private:
  void tell(const char* what) const {
    py::gil_scoped_acquire gil;
    told_.attr(what)();
  }

  py::object told_;
  WorkPtr carried_;
};

}  // namespace prism
