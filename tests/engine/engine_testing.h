// tests/engine/engine_testing.h: what the engine's tests share.
#ifndef NEEDLE_TESTS_ENGINE_ENGINE_TESTING_H_
#define NEEDLE_TESTS_ENGINE_ENGINE_TESTING_H_

#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/archive_weights.h"
#include "engine/model.h"
#include "engine/session.h"
#include "tests/support/files.h"
#include "tests/support/golden_tensors.h"

namespace needle::engine {

// The archive `name` below testdata/. Throws when it cannot be loaded.
inline Model LoadTestModel(const std::string& name, Numerics numerics, size_t threads = 1) {
  auto source = ArchiveWeights::Open(tests::Testdata(name));
  if (!source.ok()) throw std::runtime_error(source.status().ToString());
  auto model = Model::Load(*std::move(source), {.numerics = numerics, .threads = threads});
  if (!model.ok()) throw std::runtime_error(model.status().ToString());
  return *std::move(model);
}

inline Model LoadGolden(const std::string& name, Numerics numerics, size_t threads = 1) {
  return LoadTestModel("golden/" + name, numerics, threads);
}

inline std::vector<uint32_t> TokensOf(const tests::GoldenTensors& golden) {
  const auto& tokens = golden.Ints("tokens").values;
  return {tokens.begin(), tokens.end()};
}

inline std::vector<uint32_t> SomeTokens(const Model& model, size_t count) {
  std::vector<uint32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<uint32_t>((i * i * 31 + i * 7 + 3) % model.geometry().vocab);
  }
  return tokens;
}

// Throws on an error.
inline std::vector<float> Copy(const absl::StatusOr<std::span<const float>>& values) {
  if (!values.ok()) throw std::runtime_error(values.status().ToString());
  return {values->begin(), values->end()};
}

inline std::vector<float> Prefilled(const Model& model, std::span<const uint32_t> tokens,
                                    Session::Logits logits) {
  Session session(model);
  return Copy(session.Prefill(tokens, logits));
}

// |a - b| / |b|; infinite when sizes differ or a value is not finite.
inline double RelativeRms(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double difference = 0;
  double reference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    reference += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  const double result = std::sqrt(difference / reference);
  return std::isfinite(result) ? result : HUGE_VAL;
}

}  // namespace needle::engine

#endif  // NEEDLE_TESTS_ENGINE_ENGINE_TESTING_H_
