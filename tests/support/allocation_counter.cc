#include "tests/support/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<size_t> g_allocated = 0;

}  // namespace

// In a file of their own: a compiler that sees one of them inlined takes it for a mismatch.
void* operator new(size_t size) {
  g_allocated += size;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace needle::tests {

size_t AllocatedBytes() { return g_allocated; }

}  // namespace needle::tests
