// When virtual members post, as the process that plays them tells the device: a file that both map.
//
// int64 words, zeros at first. A header of kHeaderWords: [0] kReleasesMagic, [1] the window W, [2] the most heads of an
// entry. Then W entries of entry_words(most) each; the one of operation number n (its
// `entry`) is the (n mod W)-th: [0] n + 1 once all the rest is written, [1] how many heads, [2...] the heads in ns of
// CLOCK_MONOTONIC. It may be overwritten when operation n has ended.
//
// Along a ring with an arc before this rank, head[i] is the post of the arc's i-th member from its end, T_{b-1-i}, with
// as many heads as there are sends or members, whichever is less. Along a chain there is one, the latest of all members
// that the time depends on, each with the hops from it: max over k (T_{b-1-k} + hops(k)). Of messages and
// pairwise collectives head[p] is the post of the p-th partner as planned; of sandbox members' it is not read. What
// virtual members have no part in has 0 heads, and its entry is written all the same.

#pragma once

#include <cstdint>

namespace pruned::device {

constexpr std::int64_t kReleasesMagic = 0x5052'5245'4C31;  // "PRREL1"
constexpr std::int64_t kHeaderWords = 64;

constexpr std::int64_t entry_words(std::int64_t most_heads) { return (most_heads + 2 + 7) / 8 * 8; }

}  // namespace pruned::device
