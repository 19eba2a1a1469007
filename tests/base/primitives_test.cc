#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/endian.h"
#include "base/legacy_random.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace needle::base {
namespace {

using ::testing::ElementsAre;

TEST(EndianTest, LoadsAndStoresUnaligned) {
  uint8_t bytes[9] = {0xFF, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(LoadLe<uint32_t>(bytes + 1), 0x04030201U);
  EXPECT_EQ(LoadLe<uint64_t>(bytes + 1), 0x0807060504030201U);
  StoreLe<uint16_t>(bytes + 1, 0xABCD);
  EXPECT_EQ(bytes[1], 0xCD);
  EXPECT_EQ(bytes[2], 0xAB);
}

TEST(CheckedTest, TellsOverflow) {
  EXPECT_EQ(CheckedAdd(UINT64_MAX - 1, 1), UINT64_MAX);
  EXPECT_EQ(CheckedAdd(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(CheckedMul(0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFE00000001U);
  EXPECT_EQ(CheckedMul(1ULL << 32, 1ULL << 32), std::nullopt);
  EXPECT_EQ(CheckedMul(0, UINT64_MAX), 0U);
  EXPECT_EQ(CheckedRoundUp(128, 64), 128U);
  EXPECT_EQ(CheckedRoundUp(129, 64), 192U);
  EXPECT_EQ(CheckedRoundUp(UINT64_MAX - 1, 64), std::nullopt);
}

// Expected values: NumPy 2, RandomState(seed).permutation(n), .random_sample() and .randn().
TEST(LegacyRandomTest, PermutesAsNumPy) {
  EXPECT_THAT(LegacyRandom(11).Permutation(16),
              ElementsAre(8, 3, 6, 10, 15, 4, 5, 14, 2, 13, 12, 7, 1, 11, 0, 9));
  EXPECT_THAT(LegacyRandom(13).Permutation(7), ElementsAre(1, 3, 4, 5, 6, 0, 2));
  EXPECT_THAT(LegacyRandom(1).Permutation(1), ElementsAre(0));
  EXPECT_THAT(LegacyRandom(1).Permutation(0), ElementsAre());
}

TEST(LegacyRandomTest, DrawsAsNumPy) {
  LegacyRandom uniform(0);
  EXPECT_EQ(uniform.NextDouble(), 0.5488135039273248);
  EXPECT_EQ(uniform.NextDouble(), 0.7151893663724195);
  LegacyRandom gaussian(0);
  EXPECT_DOUBLE_EQ(gaussian.NextGaussian(), 1.764052345967664);
  EXPECT_DOUBLE_EQ(gaussian.NextGaussian(), 0.4001572083672233);
  EXPECT_DOUBLE_EQ(gaussian.NextGaussian(), 0.9787379841057392);
  EXPECT_DOUBLE_EQ(gaussian.NextGaussian(), 2.240893199201458);
}

// FIPS 180-4's examples.
TEST(Sha256Test, MatchesThePublishedVectors) {
  EXPECT_EQ(Sha256Hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::vector<uint8_t> abc = {'a', 'b', 'c'};
  EXPECT_EQ(Sha256Hex(abc), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(StatusMacrosTest, AddsContextInFront) {
  EXPECT_EQ(WithContext(absl::DataLossError("bad"), "a.cact"), absl::DataLossError("a.cact: bad"));
  EXPECT_TRUE(WithContext(absl::OkStatus(), "a.cact").ok());
}

TEST(ThreadPoolTest, CoversEveryItemOnceWithAnyThreads) {
  for (const size_t threads : {1U, 2U, 7U}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (const size_t count : {0U, 1U, 5U, 64U, 1000U}) {
      std::vector<std::atomic<int>> visits(count);
      pool.ParallelFor(count, 3, [&](size_t begin, size_t end, size_t worker) {
        EXPECT_EQ(begin % 3, 0U);
        EXPECT_LE(end - begin, 3U);
        EXPECT_LT(worker, threads);
        for (size_t i = begin; i < end; ++i) visits[i].fetch_add(1);
      });
      for (const auto& visit : visits) EXPECT_EQ(visit.load(), 1);
    }
  }
}

TEST(ThreadPoolTest, ManyShortLoopsInARow) {
  ThreadPool pool(4);
  std::atomic<uint64_t> sum = 0;
  for (uint64_t loop = 0; loop < 20000; ++loop) {
    pool.ParallelFor(8, 1, [&](size_t begin, size_t, size_t) { sum.fetch_add(begin + loop); });
  }
  EXPECT_EQ(sum.load(), 20000ULL * 28 + 8 * (19999ULL * 20000 / 2));
}

TEST(ThreadPoolTest, ZeroThreadsMeansAtLeastOne) {
  EXPECT_GE(ResolveThreads(0), 1U);
  EXPECT_EQ(ResolveThreads(5), 5U);
}

}  // namespace
}  // namespace needle::base
