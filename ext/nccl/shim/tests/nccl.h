// NCCL's functions, as the test program calls them, and what it knows of the fakes and of what it was told.

#pragma once

#include <string>
#include <vector>

#include "../../tests/check.h"
#include "../abi.h"

namespace pruned::shim::testing {

/// What the fakes have told since it was asked last.
std::vector<std::string> told();
/// What the fake NCCL answers from now on.
void real_answers(int result);

/// A function of the process by name, first come first served; the test program ends where there is none.
void* function(const char* name);

template <typename Type, typename... Arguments>
auto call(const char* name, Arguments... arguments) {
  return reinterpret_cast<Type*>(function(name))(arguments...);
}

/// Calls a function of NCCL's that returns a result, with these words; pointers and streams are words too.
template <typename... Words>
int nccl(const char* name, Words... words) {
  return call<int(decltype((long)words)...)>(name, (long)words...);
}

/// An id whose first byte is this, the others 0.
UniqueId id(char first);
/// Tells the fake engine what an id means.
void engine_knows(const UniqueId& id, int size, int rank);
/// A communicator of ours with this id and 4 members, we are number 1.
Comm ours(char first);

void same(const std::vector<std::string>& found, const std::vector<std::string>& wanted,
          std::source_location where = std::source_location::current());
void equal(long found, long wanted, std::source_location where = std::source_location::current());

void test_passing(const char* shim);
void test_operations();
void test_lives();

}  // namespace pruned::shim::testing
