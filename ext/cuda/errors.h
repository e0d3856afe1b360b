// What can go wrong in moving a rank's memory, each with the status that C callers get.

#pragma once

#include <stdexcept>
#include <string>

#include "api.h"

namespace residency {

struct Failure : std::runtime_error {
  Failure(int status, const std::string& what) : std::runtime_error(what), status(status) {}
  int status;
};

}  // namespace residency
