// Field case F12: streams that no checkpoint needs, and streams that are damaged. What NumPy writes
// is in forms_test.cc.
#include <string>

#include "base/endian.h"
#include "converter/pickle_reader.h"
#include "gtest/gtest.h"
#include "tests/support/build_archive.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::converter {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::StatusIs;
using tests::Testdata;
using namespace std::string_literals;

absl::Status Read(const std::string& stream) {
  return ReadPickle({reinterpret_cast<const uint8_t*>(stream.data()), stream.size()}).status();
}
auto Forbids(const std::string& text) {
  return StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(text));
}
auto Damaged(const std::string& text) {
  return StatusIs(absl::StatusCode::kDataLoss, HasSubstr(text));
}
std::string U64(uint64_t value) {
  std::string bytes(8, '\0');
  base::StoreLe(bytes.data(), value);
  return bytes;
}

TEST(PickleTest, ReadsAnEmptyDict) { EXPECT_OK(Read("\x80\x04}."s)); }

TEST(PickleTest, NamesTheGlobalThatItDoesNotCall) {
  // os.system("true"), by GLOBAL and by STACK_GLOBAL.
  EXPECT_THAT(Read("\x80\x02"
                   "cos\nsystem\nX\x04\0\0\0true\x85R."s),
              Forbids("\"os system\" at byte 2"));
  EXPECT_THAT(Read("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."s),
              Forbids("\"os system\""));
  EXPECT_THAT(Read("\x80\x02"
                   "cbuiltins\neval\nX\x01\0\0\0001\x85R."s),
              Forbids("builtins eval"));
  // A device array of JAX.
  EXPECT_THAT(Read("\x80\x02"
                   "cjax._src.array\n_reconstruct_array\n)R."s),
              Forbids("jax._src.array _reconstruct_array"));
  // An object from arguments would run its class's code.
  EXPECT_THAT(Read("\x80\x02"
                   "cos\nsystem\nX\x04\0\0\0true\x85\x81."s),
              Forbids("os system"));
}

TEST(PickleTest, NamesOpcodesThatCheckpointsDoNotNeed) {
  // INST, OBJ, PERSID, EXT1, protocol 0's text numbers, out-of-band buffers.
  for (const std::string& opcode : {"i"s, "o"s, "P"s, "\x82"s, "I"s, "\x97"s, "\xff"s}) {
    EXPECT_THAT(Read("\x80\x04" + opcode + "."), Forbids("at byte 2")) << opcode;
  }
  EXPECT_THAT(Read("\x80\x06}."s), Forbids("protocol 6"));
}

TEST(PickleTest, LengthsBeyondTheFileAreRefusedBeforeAnythingIsTaken) {
  for (const std::string& opcode : {"\x8d"s, "\x8e"s, "\x96"s}) {
    EXPECT_THAT(Read("\x80\x04" + opcode + U64(uint64_t{1} << 63) + "abc."), Damaged("byte 11"));
    EXPECT_THAT(Read("\x80\x04" + opcode + U64(UINT64_MAX) + "abc."), Damaged("byte 11"));
  }
}

TEST(PickleTest, ArgumentAcrossTheEndOfAFrameIsRefused) {
  // A frame of 3 bytes, in which a text of 4 starts.
  EXPECT_THAT(Read("\x80\x04\x95"s + U64(3) + "\x8c\x04true."s), Damaged("frame"));
  EXPECT_THAT(Read("\x80\x04\x95"s + U64(100) + "}."s), Damaged("frame of 100"));
  EXPECT_OK(Read("\x80\x04\x95"s + U64(2) + "}."s));
  EXPECT_THAT(Read("\x80\x04\x95"s + U64(12) + "\x95" + U64(2) + "}.}."s),
              Damaged("inside a frame"));
}

TEST(PickleTest, StreamsThatDoNotEndWhereTheyShouldAreRefused) {
  EXPECT_THAT(Read(""), Damaged("byte 0"));
  EXPECT_THAT(Read("\x80\x04}"s), Damaged("byte 3"));
  EXPECT_THAT(Read("\x80\x04}.x"s), Damaged("1 bytes behind"));
  EXPECT_THAT(Read("\x80\x04}}."s), Damaged("left on the stack"));
}

TEST(PickleTest, StackAndMemoAreChecked) {
  EXPECT_THAT(Read("\x80\x04."s), Damaged("stack is empty"));
  EXPECT_THAT(Read("\x80\x04h\x05."s), Damaged("memo 5"));
  EXPECT_THAT(Read("\x80\x04]u."s), Damaged("no mark"));
  EXPECT_THAT(Read("\x80\x04}(Nu."s), Damaged("adds items"));   // a key without a value
  EXPECT_THAT(Read("\x80\x04N(NNu."s), Damaged("adds items"));  // to None
  EXPECT_THAT(Read("\x80\x04}(\x85."s), Damaged("too short"));  // reaches below the mark
  EXPECT_THAT(Read("\x80\x04}}b."s), Damaged("state"));
}

TEST(PickleTest, ManyMarksAndDeepNestingCostNeitherStackNorMemory) {
  EXPECT_FALSE(Read("\x80\x04" + std::string(1'000'000, '(')).ok());
  EXPECT_FALSE(Read("\x80\x04N" + std::string(1'000'000, '\x85') + ".").ok());
  // 100,000 tuples inside each other are read and dropped.
  EXPECT_OK(Read("\x80\x04N" + std::string(100'000, '\x85') + "."));
}

TEST(PickleTest, CheckpointCutAnywhereIsRefused) {
  const tests::TempFolder folder;
  const std::string whole = tests::ReadFile(Testdata("forms/numpy2-protocol4.pkl"));
  for (size_t size = 0; size < whole.size(); size += 13) {
    EXPECT_THAT(Read(whole.substr(0, size)), Damaged("")) << size;
  }
}

TEST(PickleTest, FlippedBitsNeverCrash) {
  const tests::TempFolder folder;
  const std::string whole = tests::ReadFile(Testdata("forms/numpy1-protocol5.pkl"));
  for (size_t i = 0; i < whole.size(); i += 3) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    tests::WriteFile(folder.File("damaged.pkl"), damaged);
    tests::BuildArchive(folder.File("damaged.pkl"), folder.File("out.cact")).IgnoreError();
  }
}

TEST(PickleTest, RootMustBeACheckpoint) {
  const tests::TempFolder folder;
  const auto open = [&](const std::string& stream) {
    tests::WriteFile(folder.File("c.pkl"), stream);
    return Checkpoint::Open(folder.File("c.pkl")).status();
  };
  EXPECT_THAT(open("\x80\x04]."s), Damaged("holds no dict"));
  EXPECT_THAT(open("\x80\x04}."s), Damaged("neither"));
  EXPECT_THAT(open("\x80\x04}(\x8c\x06paramsNu."s), Damaged("neither a dict nor an array"));
  // A dict that holds itself.
  EXPECT_THAT(open("\x80\x04}(\x8c\x06params}\x94(\x8c\x01"
                   "ah\0uu."s),
              Damaged("too deep"));
}

}  // namespace
}  // namespace needle::converter
