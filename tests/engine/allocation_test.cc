// Decoding allocates nothing. A program of its own, because it replaces operator new.
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "engine/session.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/status_matchers.h"

namespace {

std::atomic<size_t> g_allocations = 0;

void* Allocate(size_t size) {
  g_allocations.fetch_add(1);
  void* const memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace needle::engine {
namespace {

class Decoding : public ::testing::TestWithParam<const char*> {};

// Buffers that double with the length of the text are large enough from position 70 to 90.
TEST_P(Decoding, AllocatesNothing) {
  const Model model = LoadGolden(GetParam(), Numerics::kKernel, 2);
  Session session(model);
  ASSERT_OK(session.Prefill(SomeTokens(model, 66), Session::Logits::kLast));
  for (uint32_t token = 0; token < 4; ++token) ASSERT_OK(session.Step(token));
  const size_t before = g_allocations.load();
  EXPECT_GT(before, 0U);
  bool ok = true;
  for (uint32_t token = 0; token < 20; ++token) ok = session.Step(token).ok() && ok;
  EXPECT_EQ(g_allocations.load(), before);
  EXPECT_TRUE(ok);
}

INSTANTIATE_TEST_SUITE_P(Models, Decoding,
                         ::testing::Values("n3-small/cq2.cact", "n2-small/cq2.cact",
                                           "n3-odd/cq2.cact"));

}  // namespace
}  // namespace needle::engine
