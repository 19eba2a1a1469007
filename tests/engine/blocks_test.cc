// The small parts of the forward pass against their definitions in double precision.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/legacy_random.h"
#include "engine/kv_cache.h"
#include "engine/lanes.h"
#include "engine/rope.h"
#include "engine/vector_ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace needle::engine {
namespace {

std::vector<float> Gaussian(size_t count, uint32_t seed, float scale = 1.0F) {
  base::LegacyRandom random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = scale * static_cast<float>(random.NextGaussian());
  return values;
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

// Every size up to a few blocks of 16, so that each tail occurs.
TEST(VectorOpsTest, BothTwinsGiveTheSameBits) {
  const VectorOps& p = PortableOps();
  const VectorOps& s = SimdOps();
  for (size_t n = 1; n <= 70; ++n) {
    const std::vector<float> a = Gaussian(n, 1, 3.0F);
    const std::vector<float> b = Gaussian(n, 2, 3.0F);
    const auto same = [&](const auto& op) {
      std::vector<float> y1 = b;
      std::vector<float> y2 = b;
      op(p, y1.data());
      op(s, y2.data());
      return SameBits(y1, y2);
    };
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) { y[0] = o.sum(a.data(), n); })) << n;
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) { y[0] = o.max(a.data(), n); })) << n;
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) { y[0] = o.max_abs(a.data(), n); })) << n;
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) { o.exp(y, n, 0.5F); })) << n;
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) { o.sigmoid(y, n); })) << n;
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) { o.silu(y, n); })) << n;
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) { o.scale(a.data(), 0.3F, y, n); })) << n;
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) {
      o.scale_gain(a.data(), 0.3F, b.data(), y, n);
    })) << n;
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) { o.add_scaled(a.data(), 0.3F, y, n); }))
        << n;
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) { o.product(a.data(), b.data(), y, n); }))
        << n;
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) {
      o.add_product(a.data(), b.data(), y, n);
    })) << n;
    EXPECT_TRUE(same([&](const VectorOps& o, float* y) { o.quantize(a.data(), 0.07F, y, n); }))
        << n;
  }
}

TEST(VectorOpsTest, BothTwinsMultiplyToTheSameBits) {
  for (const size_t cols : {1U, 15U, 16U, 33U, 200U}) {
    for (const size_t rows : {1U, 3U, 9U}) {
      for (const size_t count : {1U, 2U, 7U}) {
        const std::vector<float> w = Gaussian(rows * cols, 3);
        const std::vector<float> x = Gaussian(count * cols, 4);
        std::vector<float> y1(count * (rows + 2));
        std::vector<float> y2 = y1;
        PortableOps().multiply(w.data(), rows, cols, x.data(), count, y1.data(), rows + 2);
        SimdOps().multiply(w.data(), rows, cols, x.data(), count, y2.data(), rows + 2);
        EXPECT_TRUE(SameBits(y1, y2)) << rows << " x " << cols << " times " << count;
      }
    }
  }
}

TEST(VectorOpsTest, BothTwinsMultiplySmallMatricesToTheSameBits) {
  for (const size_t n : {1U, 8U, 16U, 24U, 48U, 100U}) {
    for (const size_t m : {1U, 2U, 3U, 6U, 11U}) {
      for (const size_t k : {1U, 5U, 32U}) {
        const std::vector<float> a = Gaussian(m * k, 5);
        const std::vector<float> b = Gaussian(k * n, 6, 40.0F);
        std::vector<int8_t> ints(k * n);
        std::transform(b.begin(), b.end(), ints.begin(), [](float value) {
          return static_cast<int8_t>(std::clamp(value, -128.0F, 127.0F));
        });
        for (const bool accumulate : {false, true}) {
          std::vector<float> c1 = Gaussian(m * n, 7);
          std::vector<float> c2 = c1;
          PortableOps().small_product(a.data(), k, b.data(), n, m, k, n, accumulate, c1.data(), n);
          SimdOps().small_product(a.data(), k, b.data(), n, m, k, n, accumulate, c2.data(), n);
          EXPECT_TRUE(SameBits(c1, c2)) << m << " x " << k << " x " << n;
          PortableOps().small_product_i8(a.data(), k, ints.data(), n, m, k, n, accumulate,
                                         c1.data(), n);
          SimdOps().small_product_i8(a.data(), k, ints.data(), n, m, k, n, accumulate, c2.data(),
                                     n);
          EXPECT_TRUE(SameBits(c1, c2)) << m << " x " << k << " x " << n << " int8";
        }
      }
    }
  }
}

// 2 ulp of the result, as exp_constants.h promises.
TEST(VectorOpsTest, ExpIsAccurate) {
  for (double x = -87.0; x <= 88.0; x += 0.00317) {
    const auto rounded = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(rounded));
    EXPECT_NEAR(static_cast<double>(Exp(rounded)), exact, exact * 2.0 * 0x1p-23) << x;
  }
  EXPECT_EQ(Exp(0.0F), 1.0F);
  EXPECT_TRUE(std::isnan(Exp(NAN)));
  EXPECT_GT(Exp(-1000.0F), 0.0F);
  EXPECT_LT(Exp(-1000.0F), 2e-38F);
  std::vector<float> nan(20, NAN);
  SimdOps().exp(nan.data(), nan.size(), 0.0F);
  EXPECT_TRUE(std::all_of(nan.begin(), nan.end(), [](float x) { return std::isnan(x); }));
}

// Q by its definition; ties to even.
TEST(VectorOpsTest, QuantizesToInt8) {
  std::vector<float> x = {127.0F, -127.0F, 0.5F, 1.5F, -2.5F, 0.49F};
  QuantizeInt8(x.data(), x.size());
  EXPECT_THAT(x, ::testing::ElementsAre(127.0F, -127.0F, 0.0F, 2.0F, -2.0F, 0.0F));
  std::vector<float> zeros(5, 0.0F);
  QuantizeInt8(zeros.data(), zeros.size());
  EXPECT_THAT(zeros, ::testing::Each(0.0F));
}

// f32 output of f64 arithmetic: half an ulp of 1 and a little.
TEST(RopeTest, AnglesAreThoseOfTheSpecification) {
  constexpr size_t kDim = 48;
  constexpr double kTheta = 100000.0;
  const Rope rope(static_cast<float>(kTheta), kDim);
  std::vector<float> cosines(kDim / 2);
  std::vector<float> sines(kDim / 2);
  for (const size_t t : {0U, 1U, 2U, 63U, 1000U, 8191U, 1000000U}) {
    rope.Angles(t, cosines, sines);
    for (size_t i = 0; i < kDim / 2; ++i) {
      const long double frequency =
          std::pow(static_cast<long double>(kTheta), -2.0L * static_cast<long double>(i) / kDim);
      const long double angle = static_cast<long double>(t) * frequency;
      EXPECT_NEAR(cosines[i], static_cast<double>(std::cos(angle)), 1e-7) << t << " " << i;
      EXPECT_NEAR(sines[i], static_cast<double>(std::sin(angle)), 1e-7) << t << " " << i;
    }
  }
}

// The specification's own words: log-sum-exp of rows and columns, in double precision.
std::vector<double> SinkhornByDefinition(std::span<const float> matrix, size_t n) {
  std::vector<double> m(matrix.begin(), matrix.end());
  const auto subtract = [&](size_t begin, size_t stride) {
    double sum = 0;
    double largest = m[begin];
    for (size_t i = 0; i < n; ++i) largest = std::max(largest, m[begin + i * stride]);
    for (size_t i = 0; i < n; ++i) sum += std::exp(m[begin + i * stride] - largest);
    for (size_t i = 0; i < n; ++i) m[begin + i * stride] -= largest + std::log(sum);
  };
  for (int round = 0; round < 20; ++round) {
    for (size_t r = 0; r < n; ++r) subtract(r * n, 1);
    for (size_t c = 0; c < n; ++c) subtract(c, n);
  }
  for (double& value : m) value = std::exp(value);
  return m;
}

TEST(LanesTest, SinkhornEqualsItsDefinition) {
  for (const size_t n : {1U, 2U, 3U, 4U, 7U}) {
    for (const float scale : {0.1F, 3.0F, 30.0F, 200.0F}) {
      const std::vector<float> matrix = Gaussian(n * n, static_cast<uint32_t>(n), scale);
      const std::vector<double> expected = SinkhornByDefinition(matrix, n);
      std::vector<double> work(n * n);
      std::vector<float> result(n * n);
      Sinkhorn(matrix, n, work, result, n);
      for (size_t i = 0; i < n * n; ++i) {
        // The result is at most 1 and rounded to f32 once.
        EXPECT_NEAR(static_cast<double>(result[i]), expected[i], 0x1p-24) << n << " " << scale;
      }
    }
  }
}

// Softmax attention by its definition over the given keys and values, in double precision.
std::vector<double> AttendByDefinition(const std::vector<std::vector<float>>& keys,
                                       const std::vector<std::vector<float>>& values,
                                       std::span<const float> q, size_t first, size_t last) {
  std::vector<double> weights;
  double sum = 0;
  for (size_t p = first; p <= last; ++p) {
    double dot = 0;
    for (size_t i = 0; i < q.size(); ++i) {
      dot += static_cast<double>(q[i]) * static_cast<double>(keys[p][i]);
    }
    weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(q.size()))));
    sum += weights.back();
  }
  std::vector<double> out(values[0].size());
  for (size_t p = first; p <= last; ++p) {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] += weights[p - first] / sum * static_cast<double>(values[p][i]);
    }
  }
  return out;
}

class KvHeadTest : public ::testing::TestWithParam<KvShape> {};

// Several times around the ring, at every position and some windows.
TEST_P(KvHeadTest, AttendsToWhatWasStored) {
  const KvShape& shape = GetParam();
  constexpr size_t kHeads = 3;
  constexpr size_t kPositions = 100;
  KvHead cache(shape);
  AttendScratch scratch;
  std::vector<std::vector<float>> keys;
  std::vector<std::vector<float>> values;
  for (uint32_t p = 0; p < kPositions; ++p) {
    std::vector<float> k = Gaussian(shape.qk_dim, 100 + p);
    std::vector<float> v = Gaussian(shape.v_dim, 300 + p);
    cache.Reserve(p + 1);
    cache.Prepare(kHeads, scratch);
    ASSERT_OK(cache.Append(p, k, v));
    if (shape.storage == KvStorage::kInt8) {
      QuantizeInt8(k.data(), k.size());
      QuantizeInt8(v.data(), v.size());
    } else if (shape.storage == KvStorage::kCq) {
      ASSERT_OK(KvCodec(shape.kv_bits, shape.qk_dim).RoundTrip(k));
      ASSERT_OK(KvCodec(shape.kv_bits, shape.v_dim).RoundTrip(v));
    }
    keys.push_back(k);
    values.push_back(v);
    const std::vector<float> q = Gaussian(kHeads * shape.qk_dim, 500 + p);
    for (const size_t window : {1U, 5U, 16U, 33U}) {
      const size_t first = p + 1 < window ? 0 : p + 1 - window;
      std::vector<float> out(kHeads * shape.v_dim);
      cache.Attend(q.data(), kHeads, first, p, scratch, out.data());
      for (size_t h = 0; h < kHeads; ++h) {
        const std::vector<double> expected = AttendByDefinition(
            keys, values, std::span(q).subspan(h * shape.qk_dim, shape.qk_dim), first, p);
        for (size_t i = 0; i < shape.v_dim; ++i) {
          // Sums of some 50 terms of size 1, weights within 1e-6 of theirs.
          EXPECT_NEAR(static_cast<double>(out[h * shape.v_dim + i]), expected[i], 1e-5)
              << "position " << p << ", window " << window;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Storages, KvHeadTest,
                         ::testing::Values(KvShape{KvStorage::kF32, 24, 40, 33, 8},
                                           KvShape{KvStorage::kInt8, 24, 40, 33, 8},
                                           KvShape{KvStorage::kInt8, 50, 7, 200, 8},
                                           KvShape{KvStorage::kCq, 24, 40, 33, 2},
                                           KvShape{KvStorage::kCq, 80, 64, 33, 3},
                                           KvShape{KvStorage::kCq, 64, 24, 200, 4}));

// One byte a value and one scale a vector; bits and one norm for 64 values.
TEST(KvHeadTest, StoresCompactly) {
  KvHead int8({KvStorage::kInt8, 48, 64, 1024, 8});
  int8.Reserve(1024);
  EXPECT_EQ(int8.MemoryBytes(), 1024U * (48 + 64 + 8));
  KvHead cq({KvStorage::kCq, 48, 64, 1024, 2});
  cq.Reserve(1024);
  EXPECT_EQ(cq.MemoryBytes(), 1024U * (16 + 2 + 16 + 2));
}

TEST(KvHeadTest, RefusesKeysThatAreNotFinite) {
  KvHead cache({KvStorage::kCq, 8, 8, 16, 2});
  cache.Reserve(1);
  const std::vector<float> fine(8, 1.0F);
  const std::vector<float> broken(8, NAN);
  EXPECT_THAT(cache.Append(0, broken, fine),
              tests::StatusIs(absl::StatusCode::kDataLoss, ::testing::HasSubstr("finite")));
}

}  // namespace
}  // namespace needle::engine
