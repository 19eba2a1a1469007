// One model in every form that NumPy writes (testdata/forms, made by make_forms.py): field cases
// F10 and F12.
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/build_archive.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::converter {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::BuildArchive;
using tests::ReadFile;
using tests::StatusIs;
using tests::TempFolder;
using tests::Testdata;

std::vector<std::string> Forms(bool refused) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Testdata("forms"))) {
    const std::string name = entry.path().filename().string();
    const bool is_form = name.ends_with(".npz") || name.ends_with(".pkl");
    if (is_form && name.starts_with("refused-") == refused) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ReadableFormTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Forms, ReadableFormTest, ::testing::ValuesIn(Forms(false)));

TEST_P(ReadableFormTest, GivesTheBytesOfSafetensors) {
  const TempFolder folder;
  ASSERT_OK(BuildArchive(Testdata("forms/tiny.safetensors"), folder.File("want.cact")));
  const auto report = BuildArchive(Testdata("forms/" + GetParam()), folder.File("got.cact"));
  ASSERT_OK(report);
  EXPECT_TRUE(report->warnings.empty());
  EXPECT_TRUE(ReadFile(folder.File("want.cact")) == ReadFile(folder.File("got.cact")));
}

TEST(FormsTest, AllOfThemAreThere) {
  EXPECT_EQ(Forms(false).size(), 29U);
  EXPECT_EQ(Forms(true).size(), 7U);
}

TEST(FormsTest, RefusedMembersAreNamed) {
  const TempFolder folder;
  const auto refused = [&](const std::string& name, const std::string& why) {
    EXPECT_THAT(BuildArchive(Testdata("forms/refused-" + name + ".npz"), folder.File("no.cact")),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("stack/final_norm/scale"), HasSubstr(why))))
        << name;
  };
  refused("object", "Python objects");
  refused("integer", "of type <i8");
  refused("anonymous", "of type |V2");
  refused("short", "bytes, want");
  refused("long", "bytes, want");
  refused("no-npy", "not a .npy file");
  refused("version4", "version 4.0");
  EXPECT_TRUE(folder.Names().empty());
}

TEST(FormsTest, ConfigBesideTheNpzMustBeTheMembersOwn) {
  const TempFolder folder;
  const std::string npz = folder.File("model.npz");
  std::filesystem::copy_file(Testdata("forms/version1.npz"), npz);
  const auto checkpoint = Checkpoint::Open(npz);
  ASSERT_OK(checkpoint);
  // The same keys in another order are the same config.
  base::Json reversed = base::Json::object();
  for (auto it = (*checkpoint)->config().rbegin(); it != (*checkpoint)->config().rend(); ++it) {
    reversed[it.key()] = it.value();
  }
  tests::WriteFile(folder.File("model.json"), reversed.dump());
  EXPECT_OK(Checkpoint::Open(npz));
  reversed["num_heads"] = 4;
  tests::WriteFile(folder.File("model.json"), reversed.dump());
  EXPECT_THAT(Checkpoint::Open(npz),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("different configs")));
}

TEST(FormsTest, NpzCutShortIsRefusedAtEveryLength) {
  const TempFolder folder;
  const std::string whole = ReadFile(Testdata("forms/version1.npz"));
  for (size_t size = 0; size < whole.size(); size += 97) {
    tests::WriteFile(folder.File("cut.npz"), whole.substr(0, size));
    EXPECT_FALSE(BuildArchive(folder.File("cut.npz"), folder.File("no.cact")).ok()) << size;
  }
}

TEST(FormsTest, DamagedNpzPayloadFailsItsChecksum) {
  const TempFolder folder;
  std::string file = ReadFile(Testdata("golden/n2-small/checkpoint.npz"));
  // Inside the embedding, the largest member and among the first.
  file[file.size() / 10] = static_cast<char>(file[file.size() / 10] ^ 0x10);
  tests::WriteFile(folder.File("checkpoint.npz"), file);
  std::filesystem::copy_file(Testdata("golden/n2-small/checkpoint.json"),
                             folder.File("checkpoint.json"));
  EXPECT_THAT(BuildArchive(folder.File("checkpoint.npz"), folder.File("no.cact")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("member ")));
}

TEST(FormsTest, UnknownEndingIsNamed) {
  EXPECT_THAT(Checkpoint::Open("model.bin"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(".safetensors")));
}

}  // namespace
}  // namespace needle::converter
