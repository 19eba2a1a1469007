// Archives built from the golden checkpoints and the fixture against those of the reference.
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "converter/build.h"
#include "converter/checkpoint.h"
#include "converter/tensor_plan.h"
#include "format/archive.h"
#include "format/slice.h"
#include "gtest/gtest.h"
#include "tests/support/archive_difference.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::converter {
namespace {

using tests::TempFolder;
using tests::Testdata;

struct GoldenCase {
  std::string name;       // of the folder below testdata
  std::string scheme;     // of the archive, without ".cact"
  uint32_t layers = 0;    // depth
  std::string tokenizer;  // below testdata; empty: none
  std::string adapter;    // below testdata; empty: none
};

void PrintTo(const GoldenCase& golden, std::ostream* out) {
  *out << golden.name << "/" << golden.scheme;
}

constexpr char kBpe[] = "fixture/tokenizer.model";

std::vector<GoldenCase> Cases() {
  return {
      {"golden/n3-small", "cq2", 0, kBpe, ""},
      {"golden/n3-small", "cq4", 0, kBpe, ""},
      {"golden/n3-small", "cq2.layers2", 2, kBpe, ""},
      {"golden/n3-small", "cq2.layers3", 3, kBpe, ""},
      {"golden/n3-small", "cq2.lora", 0, kBpe, "golden/n3-small/adapter.safetensors"},
      {"golden/n3-pad", "cq2", 0, "", ""},
      {"golden/n3-pad", "cq4", 0, "", ""},
      {"golden/n3-pad", "cq2.layers3", 3, "", ""},
      {"golden/n3-odd", "cq2", 0, "", ""},
      {"golden/n3-odd", "cq3", 0, "", ""},
      {"golden/n3-odd", "cq4", 0, "", ""},
      {"golden/n3-odd", "ternary", 0, "", ""},
      {"golden/n3-odd", "binary", 0, "", ""},
      {"golden/n3-odd", "mixed", 0, "", ""},
      {"golden/n3-odd", "cq2.layers2", 2, "", ""},
      {"golden/n3-odd", "cq2.layers3", 3, "", ""},
      {"golden/n2-small", "cq2", 0, "golden/n2-small/cq2.cact", ""},
      {"golden/n2-small", "cq3", 0, "golden/n2-small/cq2.cact", ""},
      {"golden/n2-small", "ternary", 0, "golden/n2-small/cq2.cact", ""},
      {"fixture", "cq2", 0, kBpe, ""},
  };
}

// The bit map of a scheme, as info.json has it; the fixture's is the shipped one.
std::string BitMapOf(const GoldenCase& golden) {
  const std::string scheme = golden.scheme.substr(0, golden.scheme.find('.'));
  const auto info = base::ParseJson(tests::ReadFile(Testdata(golden.name + "/info.json")));
  if (info.ok() && info->at("schemes").contains(scheme)) return info->at("schemes").at(scheme);
  return scheme == "cq4" ? "default=4" : std::string(quant::kShippedScheme);
}

PlanOptions OptionsOf(const GoldenCase& golden) {
  PlanOptions options;
  options.bit_map = *quant::BitMap::Parse(BitMapOf(golden));
  options.layers = golden.layers;
  options.tokenizer = golden.tokenizer.empty() ? "" : Testdata(golden.tokenizer);
  if (!golden.adapter.empty()) options.adapters = {Testdata(golden.adapter)};
  return options;
}

absl::StatusOr<TensorPlan> PlanOf(const GoldenCase& golden, const std::string& form) {
  auto checkpoint = Checkpoint::Open(Testdata(golden.name + "/checkpoint." + form));
  if (!checkpoint.ok()) return checkpoint.status();
  return TensorPlan::Make(*checkpoint, OptionsOf(golden));
}

class GoldenBuildTest : public ::testing::TestWithParam<GoldenCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, GoldenBuildTest, ::testing::ValuesIn(Cases()));

TEST_P(GoldenBuildTest, EqualsTheReference) {
  const TempFolder folder;
  const std::string target = folder.File("model.cact");
  const auto plan = PlanOf(GetParam(), "safetensors");
  ASSERT_OK(plan);
  const auto report = Build(*plan, target, {});
  ASSERT_OK(report);
  const auto ours = format::Archive::Open(target);
  ASSERT_OK(ours);
  const auto theirs =
      format::Archive::Open(Testdata(GetParam().name + "/" + GetParam().scheme + ".cact"));
  ASSERT_OK(theirs);
  const tests::ArchiveDifferences found = tests::ExpectSameArchive(*ours, *theirs, *plan);
  RecordProperty("differing_indices", std::to_string(found.indices));
  RecordProperty("differing_norms", std::to_string(found.differing_norms));
  std::cout << found.indices << " of " << found.weights << " indices, " << found.differing_norms
            << " of " << found.norms << " norms differ\n";
}

class FormsTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Forms, FormsTest, ::testing::Values("npz", "pkl"));

TEST_P(FormsTest, GivesTheBytesOfSafetensors) {
  const GoldenCase golden{"golden/n2-small", "cq2", 0, "", ""};
  const TempFolder folder;
  for (const std::string& form : {std::string("safetensors"), GetParam()}) {
    const auto plan = PlanOf(golden, form);
    ASSERT_OK(plan);
    EXPECT_TRUE(plan->warnings().empty());
    ASSERT_OK(Build(*plan, folder.File(form), {}));
  }
  EXPECT_TRUE(tests::ReadFile(folder.File("safetensors")) ==
              tests::ReadFile(folder.File(GetParam())));
}

}  // namespace
}  // namespace needle::converter
