// The test groups of the program; each is a file.

#pragma once

namespace pruned::testing {

void test_arithmetic();
void test_fifo();
void test_bridge();
void test_members();
void test_arcs();
void test_tree_shapes();
void test_trees();
void test_tree_pace();
void test_groups();
void test_threads();

}  // namespace pruned::testing
