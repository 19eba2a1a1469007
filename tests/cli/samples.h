// tests/cli/samples.h: small inputs for tests of commands, copied into a folder of the test's own.
#ifndef NEEDLE_TESTS_CLI_SAMPLES_H_
#define NEEDLE_TESTS_CLI_SAMPLES_H_

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cli/program.h"
#include "tests/support/files.h"

namespace needle::tests {

// A Needle 3 model that builds in a few milliseconds, without a tokenizer; and a Needle 2 one.
inline constexpr char kOddCheckpoint[] = "golden/n3-odd/checkpoint.safetensors";
inline constexpr char kOddArchive[] = "golden/n3-odd/cq2.cact";
inline constexpr char kNeedle2Archive[] = "golden/n2-small/cq2.cact";
// The trained fixture: tokenizer, heads, answers.
inline constexpr char kFixtureCheckpoint[] = "fixture/checkpoint.safetensors";
inline constexpr char kFixtureArchive[] = "fixture/cq2.cact";
inline constexpr char kFixtureTokenizer[] = "fixture/tokenizer.model";

// Arguments that write a random checkpoint of 130 kB.
inline std::vector<std::string> SmallSynth(const std::string& output) {
  std::vector<std::string> arguments = {"synth", "-o", output};
  for (const char* setting :
       {"num_layers=2", "d_model=128", "num_heads=2", "num_kv_heads=1", "vocab_size=64",
        "out_vocab=64", "engram_slots=8", "engram_layers=[1]", "global_layers=[]"}) {
    arguments.insert(arguments.end(), {"--set", setting});
  }
  return arguments;
}

class CommandTest : public ::testing::Test {
 protected:
  // A copy of a file below testdata/, under `name`.
  std::string Copy(const std::string& testdata, const std::string& name) {
    const std::string path = folder_.File(name);
    WriteFile(path, ReadFile(Testdata(testdata)));
    return path;
  }
  std::string File(const std::string& name) const { return folder_.File(name); }

  TempFolder folder_;
};

// Runs and expects `exit_code`; prints what the program said otherwise.
inline ProgramResult Expect(int exit_code, const std::vector<std::string>& arguments) {
  ProgramResult result = RunProgram(arguments);
  EXPECT_EQ(result.exit_code, exit_code)
      << ::testing::PrintToString(arguments) << "\nstdout: " << result.out
      << "\nstderr: " << result.err;
  return result;
}

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_CLI_SAMPLES_H_
