// tests/verify/fixture.h: the trained fixture as plans, archives and models.
#ifndef NEEDLE_TESTS_VERIFY_FIXTURE_H_
#define NEEDLE_TESTS_VERIFY_FIXTURE_H_

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "converter/build.h"
#include "converter/tensor_plan.h"
#include "converter/verify/plan_weights.h"
#include "converter/verify/verify_tensors.h"
#include "engine/archive_weights.h"
#include "engine/model.h"
#include "tests/support/files.h"
#include "tests/support/outliers.h"

namespace needle::verify {

// Throws when `result` is an error: a test that needs the value must fail.
template <typename T>
T ValueOf(absl::StatusOr<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return *std::move(result);
}

// `checkpoint`: a path, relative to testdata/, e.g. "fixture/checkpoint.safetensors". The tokenizer
// is the one beside it, if there is one.
inline std::shared_ptr<const converter::TensorPlan> MakePlan(
    const std::string& checkpoint, std::string_view bit_map = quant::kShippedScheme,
    uint32_t layers = 0) {
  converter::PlanOptions options;
  options.bit_map = ValueOf(quant::BitMap::Parse(bit_map));
  options.layers = layers;
  return std::make_shared<const converter::TensorPlan>(ValueOf(converter::TensorPlan::Make(
      ValueOf(converter::Checkpoint::Open(std::filesystem::path(tests::Testdata("")) / checkpoint)),
      options)));
}

// The fixture's second checkpoint.
inline std::shared_ptr<const converter::TensorPlan> MakeOutliersPlan(
    std::string_view bit_map = quant::kShippedScheme) {
  const tests::TempFolder folder;
  return MakePlan(tests::WriteOutliersCheckpoint(folder), bit_map);
}

// `name`: relative to testdata/.
inline format::Archive OpenArchive(const std::string& name) {
  return ValueOf(format::Archive::Open(tests::Testdata(name)));
}

inline engine::Model LoadModel(std::shared_ptr<const engine::WeightSource> source,
                               engine::Numerics numerics) {
  return ValueOf(engine::Model::Load(std::move(source), {.numerics = numerics}));
}

// A float checkpoint, ready to run.
inline engine::Model LoadFloats(std::shared_ptr<const converter::TensorPlan> plan,
                                engine::Numerics numerics = engine::Numerics::kFloat) {
  return LoadModel(std::make_shared<PlanWeights>(std::move(plan)), numerics);
}

inline engine::Model LoadArchive(const std::string& path, engine::Numerics numerics) {
  return LoadModel(ValueOf(engine::ArchiveWeights::Open(path)), numerics);
}

// Of the whole and of each tensor.
inline std::vector<std::string> AllFailures(const TensorsReport& report) {
  std::vector<std::string> failures = report.failures;
  for (const TensorCheck& check : report.tensors) {
    failures.insert(failures.end(), check.failures.begin(), check.failures.end());
  }
  return failures;
}

}  // namespace needle::verify

#endif  // NEEDLE_TESTS_VERIFY_FIXTURE_H_
