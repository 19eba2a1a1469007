#include "converter/verify/tensor_file_writer.h"

#include <cerrno>

#include "converter/leaf_container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::verify {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tests::ReadFile;
using tests::StatusIs;
using tests::TempFolder;

const std::vector<float> kMatrix = {1, 2, 3, 4, 5, 6};
const std::vector<uint32_t> kTokens = {7, 8};

absl::Status WriteTwo(const std::string& path) {
  auto writer = TensorFileWriter::Create(
      path, {{"m", ArrayType::kF32, {2, 3}}, {"tokens", ArrayType::kU32, {2}}});
  if (!writer.ok()) return writer.status();
  if (auto status = (*writer)->Write(BytesOf(std::span<const float>(kMatrix))); !status.ok()) {
    return status;
  }
  if (auto status = (*writer)->Write(BytesOf(std::span<const uint32_t>(kTokens))); !status.ok()) {
    return status;
  }
  return (*writer)->Finish();
}

// The example of NumPy's format description: magic, version, length, padded dictionary.
TEST(TensorFileWriterTest, NpyHeaderIsNumPys) {
  const std::string header = NpyHeader({"x", ArrayType::kF32, {2, 3}});
  EXPECT_EQ(header.size() % 64, 0U);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(static_cast<size_t>(header[8]), header.size() - 10);
  EXPECT_THAT(header, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"));
  EXPECT_EQ(header.back(), '\n');
  EXPECT_THAT(NpyHeader({"x", ArrayType::kU8, {5}}), HasSubstr("'|u1'"));
  EXPECT_THAT(NpyHeader({"x", ArrayType::kU8, {5}}), HasSubstr("(5,)"));
  EXPECT_THAT(NpyHeader({"x", ArrayType::kF16, {}}), HasSubstr("'shape': ()"));
}

// The independent readers of the converter read both forms back.
TEST(TensorFileWriterTest, WrittenFilesAreReadByTheConverter) {
  const TempFolder folder;
  for (const char* name : {"two.npz", "two.safetensors"}) {
    SCOPED_TRACE(name);
    ASSERT_OK(WriteTwo(folder.File(name)));
    auto container = converter::OpenLeafContainer(folder.File(name));
    ASSERT_OK(container);
    const auto& leaves = (*container)->leaves();
    ASSERT_EQ(leaves.size(), 2U);
    EXPECT_EQ(leaves[0].name, "m");
    EXPECT_THAT(leaves[0].shape, ElementsAre(2, 3));
    EXPECT_EQ(leaves[0].type, quant::SourceType::kF32);
    EXPECT_EQ(leaves[1].name, "tokens");
    auto data = (*container)->Data(0);
    ASSERT_OK(data);
    EXPECT_EQ(std::vector<uint8_t>(data->bytes.begin(), data->bytes.end()), [] {
      const auto bytes = BytesOf(std::span<const float>(kMatrix));
      return std::vector<uint8_t>(bytes.begin(), bytes.end());
    }());
  }
}

TEST(TensorFileWriterTest, SameArraysGiveTheSameBytes) {
  const TempFolder folder;
  ASSERT_OK(WriteTwo(folder.File("a.npz")));
  ASSERT_OK(WriteTwo(folder.File("b.npz")));
  EXPECT_EQ(ReadFile(folder.File("a.npz")), ReadFile(folder.File("b.npz")));
}

TEST(TensorFileWriterTest, RefusesOtherFormsAndSizes) {
  const TempFolder folder;
  EXPECT_THAT(TensorFileWriter::Create(folder.File("x.bin"), {{"m", ArrayType::kF32, {1}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("x.bin")));
  EXPECT_THAT(TensorFileWriter::Create(folder.File("x.npy"),
                                       {{"a", ArrayType::kF32, {1}}, {"b", ArrayType::kF32, {1}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("several arrays")));
  EXPECT_THAT(TensorFileWriter::Create(folder.File("x.npz"),
                                       {{"m", ArrayType::kF32, {uint64_t{1} << 62, 4}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("64 bits")));
  EXPECT_THAT(folder.Names(), IsEmpty());
}

TEST(TensorFileWriterTest, NothingAppearsUnlessAllIsWritten) {
  const TempFolder folder;
  {
    auto writer = TensorFileWriter::Create(folder.File("x.npz"), {{"m", ArrayType::kF32, {2, 3}}});
    ASSERT_OK(writer);
    EXPECT_THAT((*writer)->Write(BytesOf(std::span<const uint32_t>(kTokens))),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("8 bytes, want 24 for m")));
    EXPECT_THAT((*writer)->Finish(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("m was not written")));
  }
  EXPECT_THAT(folder.Names(), IsEmpty());
}

}  // namespace
}  // namespace needle::verify
