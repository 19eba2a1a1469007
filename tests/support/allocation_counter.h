// tests/support/allocation_counter.h: how much a test program asks of the heap. A program that
// lists allocation_counter.cc among its sources counts every operator new.
#ifndef NEEDLE_TESTS_SUPPORT_ALLOCATION_COUNTER_H_
#define NEEDLE_TESTS_SUPPORT_ALLOCATION_COUNTER_H_

#include <cstddef>

namespace needle::tests {

// Bytes asked for so far by all threads; what was freed again is not taken off.
size_t AllocatedBytes();

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_SUPPORT_ALLOCATION_COUNTER_H_
