// tests/calibrate/calibration_fixture.h: plans, changed checkpoints and short texts for tests of
// calibration.
#ifndef NEEDLE_TESTS_CALIBRATE_CALIBRATION_FIXTURE_H_
#define NEEDLE_TESTS_CALIBRATE_CALIBRATION_FIXTURE_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/endian.h"
#include "base/json.h"
#include "converter/build.h"
#include "converter/calibrate/calibrate.h"
#include "converter/checkpoint.h"
#include "converter/tensor_plan.h"
#include "gtest/gtest.h"
#include "quant/bit_map.h"
#include "tests/support/examples.h"
#include "tests/support/files.h"

namespace needle::tests {

inline std::shared_ptr<const converter::TensorPlan> MakePlan(const std::string& checkpoint,
                                                             const std::string& bit_map,
                                                             const std::string& tokenizer) {
  auto opened = converter::Checkpoint::Open(checkpoint);
  EXPECT_TRUE(opened.ok()) << opened.status();
  converter::PlanOptions options;
  options.bit_map = *quant::BitMap::Parse(bit_map);
  options.tokenizer = tokenizer;
  auto plan = converter::TensorPlan::Make(*opened, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return std::make_shared<const converter::TensorPlan>(*std::move(plan));
}

inline constexpr char kScheme[] = "embedding=4,mhc=4,default=2";

inline std::string FixtureTokenizer() { return Testdata("fixture/tokenizer.model"); }

// The small random model with everything: heads, taps, sites.
inline std::shared_ptr<const converter::TensorPlan> SmallPlan(const std::string& bit_map,
                                                              const std::string& checkpoint = "") {
  return MakePlan(
      checkpoint.empty() ? Testdata("golden/n3-small/checkpoint.safetensors") : checkpoint, bit_map,
      FixtureTokenizer());
}

// A copy of an F32 .safetensors file with the values of one leaf changed in place.
inline void ChangeLeaf(const std::string& from, const std::string& to, const std::string& leaf,
                       const std::function<void(std::vector<float>&)>& change) {
  std::vector<uint8_t> bytes = ReadBytes(from);
  const auto length = base::LoadLe<uint64_t>(bytes.data());
  const auto header = base::ParseJson(
      std::string(bytes.begin() + 8, bytes.begin() + 8 + static_cast<ptrdiff_t>(length)));
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ((*header)[leaf]["dtype"], "F32") << leaf;
  const auto begin = (*header)[leaf]["data_offsets"][0].get<uint64_t>();
  const auto end = (*header)[leaf]["data_offsets"][1].get<uint64_t>();
  std::vector<float> values((end - begin) / sizeof(float));
  std::memcpy(values.data(), &bytes[8 + length + begin], end - begin);
  change(values);
  std::memcpy(&bytes[8 + length + begin], values.data(), end - begin);
  WriteBytes(to, bytes);
}

// The archive's bytes.
inline std::string BuildBytes(const converter::TensorPlan& plan,
                              const calibrate::Calibration& calibration, const TempFolder& folder) {
  converter::BuildOptions options;
  options.encoder = calibration.encoder.get();
  options.threads = 2;
  const auto report = converter::Build(plan, folder.File("out.cact"), options);
  EXPECT_TRUE(report.ok()) << report.status();
  return ReadFile(folder.File("out.cact"));
}

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_CALIBRATE_CALIBRATION_FIXTURE_H_
