// Loops over elements, in the widest vectors that the processor at hand has.

#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
// The rest of the module is compiled for every x86-64, so this is compiled once for each width; the loader picks one.
#define PRISM_WIDEST_VECTORS [[gnu::target_clones("avx512f", "avx2", "default"), gnu::flatten]]
#else
#define PRISM_WIDEST_VECTORS
#endif

namespace prism {
namespace {  // the loader would take for one what two modules of a process have under one name

// `loop` has no captures: what it works with lies in registers, not where its own writes might reach.
// A product that is added to something in one expression would be rounded once with wide vectors, twice without:
// there are none in the loops given here.
template <class Loop, class... Given>
PRISM_WIDEST_VECTORS void vectorised(Loop loop, Given... given) {
  loop(given...);
}

}  // namespace
}  // namespace prism
