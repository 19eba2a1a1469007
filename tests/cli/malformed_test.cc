// Field case F13, malformed archives, on the commands that read them. The rules themselves and all
// positions are tested in tests/format; here: exit code, one clear line, no signal, nothing
// written.
#include <sys/stat.h>

#include <filesystem>

#include "base/endian.h"
#include "gmock/gmock.h"
#include "tests/cli/samples.h"

namespace needle::tests {
namespace {

using ::testing::HasSubstr;

class MalformedTest : public CommandTest {
 protected:
  void SetUp() override { bytes_ = ReadFile(Testdata(kOddArchive)); }

  // Every command on `path`: refused, with `named` in the message.
  void ExpectRefused(const std::string& path, const std::string& named) {
    const std::vector<std::vector<std::string>> commands = {
        {"inspect", path},
        {"verify", path},
        {"diff", path, Testdata(kOddArchive)},
        {"requantize", path, "--bits", "3", "-o", File("out.cact")},
        {"slice", path, "--layers", "2", "-o", File("out.cact")},
        {"golden", path, "-o", File("out.npz")},
        {"dump", path, "embedding"},
        {"manifest", path},
        {"run", path, "--token-ids", "1"},
    };
    for (const auto& arguments : commands) {
      const ProgramResult result = RunProgram(arguments);
      EXPECT_THAT(result.exit_code, ::testing::AnyOf(2, 3))
          << ::testing::PrintToString(arguments) << result.err;
      EXPECT_EQ(result.out, "");
      EXPECT_THAT(result.err, HasSubstr(path));
      EXPECT_THAT(result.err, HasSubstr(named)) << ::testing::PrintToString(arguments);
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
      EXPECT_FALSE(std::filesystem::exists(File("out.cact")));
      EXPECT_FALSE(std::filesystem::exists(File("out.npz")));
    }
  }
  void ExpectRefusedBytes(const std::string& named) {
    WriteFile(File("bad.cact"), bytes_);
    ExpectRefused(File("bad.cact"), named);
  }
  template <typename T>
  void Put(size_t offset, T value) {
    base::StoreLe<T>(&bytes_[offset], value);
  }

  static constexpr size_t kDirectory = 196 + 28 * 4;
  std::string bytes_;
};

TEST_F(MalformedTest, MissingEmptyFifoFolder) {
  ExpectRefused(File("none.cact"), "none.cact");
  WriteFile(File("empty.cact"), "");
  ExpectRefused(File("empty.cact"), "empty.cact");
  ASSERT_EQ(mkfifo(File("fifo.cact").c_str(), 0600), 0);
  ExpectRefused(File("fifo.cact"), "fifo.cact");
  ASSERT_TRUE(std::filesystem::create_directory(File("folder.cact")));
  ExpectRefused(File("folder.cact"), "folder");
}

TEST_F(MalformedTest, CutShortAndTooLong) {
  const std::string whole = bytes_;
  bytes_ = whole.substr(0, whole.size() - 1);
  ExpectRefusedBytes("record");
  bytes_ = whole.substr(0, 100);
  ExpectRefusedBytes("bad.cact");
  bytes_ = whole + '\0';
  ExpectRefusedBytes("bad.cact");
}

TEST_F(MalformedTest, Tags) {
  Put<uint32_t>(0, 0x05E12A82);
  ExpectRefusedBytes("older package");
  Put<uint32_t>(0, 0x12345678);
  ExpectRefusedBytes("0x12345678");
}

TEST_F(MalformedTest, HugeNumbers) {
  const std::string whole = bytes_;
  Put<uint32_t>(4, 0xFFFFFFFF);
  ExpectRefusedBytes("num_tensors");
  bytes_ = whole;
  Put<uint32_t>(40, 65);
  ExpectRefusedBytes("num_layers");
  bytes_ = whole;
  Put<uint64_t>(kDirectory + 20, 0xFFFFFFFFFFFFFFC0U);
  ExpectRefusedBytes("embedding");
  bytes_ = whole;
  Put<uint32_t>(kDirectory + 4, 0xFFFFFFFF);
  Put<uint32_t>(kDirectory + 8, 0xFFFFFFFF);
  Put<uint64_t>(kDirectory + 28, 0);
  ExpectRefusedBytes("embedding");
}

TEST_F(MalformedTest, Needle2IsToldFromNeedle3) {
  // Same commands on the other generation work; the point is that none guesses.
  Expect(0, {"inspect", Testdata(kNeedle2Archive)});
  Expect(0, {"verify", Testdata(kNeedle2Archive)});
  Expect(0, {"run", Testdata(kNeedle2Archive), "--token-ids", "1,2"});
  Expect(0, {"slice", Testdata(kNeedle2Archive), "--layers", "2", "-o", File("s.cact")});
  Expect(0, {"requantize", Testdata(kNeedle2Archive), "--bits", "4", "-o", File("r.cact")});
  Expect(0, {"golden", Testdata(kNeedle2Archive), "-o", File("g.npz")});
}

}  // namespace
}  // namespace needle::tests
