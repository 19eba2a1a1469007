// What each command prints and how it exits. Exact bytes of archives are the golden tests' matter.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/cli/samples.h"

namespace needle::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using BuildTest = CommandTest;

TEST_F(BuildTest, IsTheDefaultCommand) {
  Expect(0, {Testdata(kOddCheckpoint), "-o", File("a.cact")});
  Expect(0, {"build", Testdata(kOddCheckpoint), "-o", File("b.cact")});
  Expect(0, {"--threads", "1", Testdata(kOddCheckpoint), "-o", File("c.cact")});
  EXPECT_EQ(ReadFile(File("a.cact")), ReadFile(File("b.cact")));
  EXPECT_EQ(ReadFile(File("a.cact")), ReadFile(File("c.cact")));
}

TEST_F(BuildTest, ADryRunSaysTheSizesOfTheBuild) {
  for (const char* sample : {kOddCheckpoint, kFixtureCheckpoint}) {
    const base::Json dry = Expect(0, {"build", Testdata(sample), "--dry-run", "--json"}).Json();
    const base::Json built =
        Expect(0, {"build", Testdata(sample), "-o", File("a.cact"), "--json"}).Json();
    EXPECT_EQ(dry["bytes"], built["bytes"]);
    EXPECT_EQ(dry["bytes"], std::filesystem::file_size(File("a.cact")));
    ASSERT_EQ(dry["tensors"].size(), built["tensors"].size());
    for (size_t i = 0; i < dry["tensors"].size(); ++i) {
      EXPECT_EQ(dry["tensors"][i]["name"], built["tensors"][i]["name"]);
      EXPECT_EQ(dry["tensors"][i]["bytes"], built["tensors"][i]["bytes"]);
    }
  }
  Expect(0, {"build", Testdata(kOddCheckpoint), "--dry-run", "-o", File("never.cact")});
  EXPECT_THAT(folder_.Names(), Not(::testing::Contains("never.cact")));
}

TEST_F(BuildTest, NeedsAnOutput) {
  EXPECT_THAT(Expect(2, {"build", Testdata(kOddCheckpoint)}).err, HasSubstr("--output is missing"));
}

TEST_F(BuildTest, SaysWhichTokenizerWasUsed) {
  const std::string checkpoint = Copy(kFixtureCheckpoint, "m.safetensors");
  EXPECT_THAT(Expect(0, {"build", checkpoint, "--dry-run"}).out, HasSubstr("tokenizer: none"));
  Copy(kFixtureTokenizer, "tokenizer.model");
  EXPECT_THAT(Expect(0, {"build", checkpoint, "--dry-run"}).out,
              HasSubstr("tokenizer: " + File("tokenizer.model")));
  EXPECT_THAT(Expect(0, {"build", checkpoint, "--dry-run", "--no-tokenizer"}).out,
              HasSubstr("tokenizer: none"));
  EXPECT_EQ(Expect(0, {"build", checkpoint, "--dry-run", "--json", "--tokenizer",
                       Testdata(kFixtureArchive)})
                .Json()["tokenizer"],
            Testdata(kFixtureArchive));
}

TEST_F(BuildTest, TablesAreDataAndQuietIsQuiet) {
  const ProgramResult loud = Expect(0, {"build", Testdata(kOddCheckpoint), "-o", File("a.cact")});
  EXPECT_THAT(loud.out, HasSubstr("CQ2"));
  EXPECT_THAT(loud.out, HasSubstr("structure: passed"));
  EXPECT_THAT(loud.out, HasSubstr("tensors: passed"));
  EXPECT_THAT(loud.out, HasSubstr("forward: passed"));
  EXPECT_THAT(loud.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(loud.err, Not(HasSubstr("\x1b")));
  const ProgramResult verbose =
      Expect(0, {"build", Testdata(kOddCheckpoint), "-o", File("a.cact"), "-v"});
  EXPECT_THAT(verbose.out, HasSubstr("layer00.q_proj"));
  const ProgramResult quiet =
      Expect(0, {"build", Testdata(kOddCheckpoint), "-o", File("a.cact"), "-q"});
  EXPECT_EQ(quiet.out, "");
  EXPECT_EQ(quiet.err, "");
}

TEST_F(BuildTest, DoesNotDependOnLocaleFolderOrThreads) {
  Expect(0, {"build", Testdata(kOddCheckpoint), "-o", File("a.cact"), "--no-verify"});
  for (const char* threads : {"1", "2", "7"}) {
    ProgramCall call;
    call.arguments = {
        "build",      Testdata(kOddCheckpoint), "-o", File("b.cact"), "--threads", threads,
        "--no-verify"};
    call.folder = "/";
    call.environment = {{"LC_ALL", "de_DE.UTF-8"}, {"LANG", "de_DE.UTF-8"}};
    EXPECT_EQ(RunProgram(call).exit_code, 0);
    EXPECT_EQ(ReadFile(File("a.cact")), ReadFile(File("b.cact")));
  }
}

TEST_F(BuildTest, AFileThatIsNoneIsRefused) {
  EXPECT_THAT(Expect(3, {"build", File("none.safetensors"), "-o", File("x.cact")}).err,
              HasSubstr("none.safetensors"));
  WriteFile(File("pointer.safetensors"),
            "version https://git-lfs.github.com/spec/v1\noid sha256:"
            "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n");
  EXPECT_THAT(Expect(3, {"build", File("pointer.safetensors"), "-o", File("x.cact")}).err,
              HasSubstr("pointer.safetensors"));
  EXPECT_THAT(Expect(2, {"inpsect", "x"}).err, HasSubstr("did you mean needle-build inspect?"));
}

TEST_F(CommandTest, SliceIsABuildAtThatDepth) {
  Expect(0, {"build", Testdata(kFixtureCheckpoint), "-o", File("full.cact"), "--no-verify"});
  for (const char* depth : {"2", "4"}) {
    Expect(0, {"build", Testdata(kFixtureCheckpoint), "--layers", depth, "-o", File("built.cact"),
               "--no-verify"});
    Expect(0, {"slice", File("full.cact"), "--layers", depth, "-o", File("sliced.cact")});
    EXPECT_EQ(ReadFile(File("built.cact")), ReadFile(File("sliced.cact")));
  }
  EXPECT_THAT(Expect(2, {"slice", File("full.cact"), "--layers", "7", "-o", File("x.cact")}).err,
              HasSubstr("7"));
  EXPECT_THAT(Expect(2, {"slice", File("full.cact"), "--layers", "1", "-o", File("x.cact")}).err,
              HasSubstr("1"));
}

TEST_F(CommandTest, LadderIsABuildAtEachDepthWithSums) {
  Expect(0, {"ladder", Testdata(kFixtureCheckpoint), "--depths", "2-4,6", "--out-dir",
             folder_.path()});
  EXPECT_THAT(folder_.Names(),
              ElementsAre("SHA256SUMS", "checkpoint.layers02.cact", "checkpoint.layers03.cact",
                          "checkpoint.layers04.cact", "checkpoint.layers06.cact", "manifest.json"));
  Expect(0, {"build", Testdata(kFixtureCheckpoint), "--layers", "3", "-o", File("built.cact"),
             "--no-verify"});
  EXPECT_EQ(ReadFile(File("built.cact")), ReadFile(File("checkpoint.layers03.cact")));
  ProgramCall sums;
  sums.program = "/usr/bin/sha256sum";
  sums.arguments = {"--check", "--strict", "SHA256SUMS"};
  sums.folder = folder_.path();
  EXPECT_EQ(RunProgram(sums).exit_code, 0);

  Expect(0, {"verify", "--manifest", File("manifest.json")});
  std::string bytes = ReadFile(File("checkpoint.layers02.cact"));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  WriteFile(File("checkpoint.layers02.cact"), bytes);
  EXPECT_THAT(Expect(4, {"verify", "--manifest", File("manifest.json")}).out,
              HasSubstr("checkpoint.layers02.cact"));
}

TEST_F(CommandTest, LadderRefusesDepthsThatAreNone) {
  for (const char* depths : {"x", "3-2", "2-", "2-3-4", "65", "2,,3", "-1"}) {
    SCOPED_TRACE(depths);
    EXPECT_THAT(Expect(2, {"ladder", Testdata(kFixtureCheckpoint),
                           absl::StrCat("--depths=", depths), "--out-dir", folder_.path()})
                    .err,
                HasSubstr("--depths"));
  }
  EXPECT_THAT(folder_.Names(), IsEmpty());
}

TEST_F(CommandTest, ManifestsAreTheSameEachTimeAndDatedOnlyWhenAsked) {
  const ProgramResult once = Expect(0, {"manifest", Testdata(kFixtureArchive)});
  EXPECT_EQ(once.out, Expect(0, {"manifest", Testdata(kFixtureArchive)}).out);
  EXPECT_FALSE(once.Json().contains("created"));
  ProgramCall dated;
  dated.arguments = {"manifest", Testdata(kFixtureArchive)};
  dated.environment = {{"SOURCE_DATE_EPOCH", "0"}};
  EXPECT_EQ(RunProgram(dated).Json()["created"], "1970-01-01T00:00:00Z");
}

TEST_F(CommandTest, DiffTellsIdenticalFromDifferent) {
  const std::string archive = Testdata(kFixtureArchive);
  EXPECT_EQ(Expect(0, {"diff", archive, archive}).out, "byte-identical\n");
  Expect(0, {"requantize", archive, "--bits-map", "embedding=3,mhc=4,default=2", "-o",
             File("r.cact")});
  const ProgramResult different = Expect(4, {"diff", archive, File("r.cact")});
  EXPECT_THAT(different.out, HasSubstr("different; 1 of "));
  EXPECT_THAT(different.out, HasSubstr("CQ4 -> CQ3"));
}

TEST_F(CommandTest, GoldenTensorsVerify) {
  const std::string archive = Testdata(kFixtureArchive);
  for (const char* name : {"g.npz", "g.safetensors"}) {
    Expect(0, {"golden", archive, "-o", File(name)});
    EXPECT_THAT(Expect(0, {"verify", archive, "--golden", File(name)}).out,
                HasSubstr("tensors: passed"));
  }
  Expect(0, {"requantize", archive, "--bits-map", "embedding=3,mhc=4,default=2", "-o",
             File("r.cact")});
  EXPECT_THAT(Expect(4, {"verify", File("r.cact"), "--golden", File("g.npz")}).out,
              HasSubstr("embedding"));
  EXPECT_THAT(Expect(2, {"golden", archive, "-o", File("g.txt")}).err, HasSubstr(".npz"));
}

TEST_F(CommandTest, DumpPrintsCsv) {
  const ProgramResult norms =
      Expect(0, {"dump", Testdata(kOddArchive), "layer00.q_proj", "--norms"});
  const std::vector<std::string> lines = absl::StrSplit(norms.out, '\n');
  EXPECT_EQ(lines.size(), 97U);  // 96 rows of one group, and what follows the last newline
  EXPECT_THAT(Expect(3, {"dump", Testdata(kOddArchive), "layer00.q_porj"}).err,
              HasSubstr("layer00.q_porj"));
  EXPECT_THAT(Expect(2, {"dump", Testdata(kOddArchive), "layer00.norm_in", "--indices"}).err,
              HasSubstr("not quantised"));
}

TEST_F(CommandTest, RequantizeSaysThatLossesAdd) {
  EXPECT_THAT(
      Expect(0, {"requantize", Testdata(kOddArchive), "--bits", "3", "-o", File("r.cact")}).out,
      HasSubstr("losses add"));
  EXPECT_THAT(Expect(2, {"requantize", Testdata(kOddArchive), "-o", File("r.cact")}).err,
              HasSubstr("--bits or --bits-map is missing"));
}

TEST_F(CommandTest, VerifyFindsOneFlippedBit) {
  std::string bytes = ReadFile(Testdata(kFixtureArchive));
  const base::Json tensors =
      Expect(0, {"inspect", "--json", Testdata(kFixtureArchive)}).Json()["tensors"];
  for (const base::Json& tensor : tensors) {
    if (tensor["name"] == "engram0.tables") bytes[tensor["offset"].get<size_t>() + 100] ^= 1;
  }
  WriteFile(File("bad.cact"), bytes);
  const ProgramResult result =
      Expect(4, {"verify", File("bad.cact"), "--against", Testdata(kFixtureCheckpoint)});
  EXPECT_THAT(result.out, HasSubstr("NOT verified"));
  EXPECT_THAT(result.out, HasSubstr("engram0.tables"));
  const ProgramResult quiet =
      Expect(4, {"verify", File("bad.cact"), "--against", Testdata(kFixtureCheckpoint), "-q"});
  EXPECT_EQ(quiet.out, "");
  EXPECT_THAT(quiet.err, HasSubstr("error: engram0.tables: row "));
  Expect(0, {"verify", Testdata(kFixtureArchive), "--against", Testdata(kFixtureCheckpoint)});
  // A depth that is not the checkpoint's never passes, unless it is asked for.
  Expect(0, {"slice", Testdata(kFixtureArchive), "--layers", "4", "-o", File("s.cact")});
  Expect(4, {"verify", File("s.cact"), "--against", Testdata(kFixtureCheckpoint)});
  Expect(0, {"verify", File("s.cact"), "--against", Testdata(kFixtureCheckpoint), "--layers", "4",
             "--max-mean-kl", "10"});
  Expect(4, {"verify", Testdata(kFixtureArchive), "--against", Testdata(kFixtureCheckpoint),
             "--max-mean-kl", "0"});
}

constexpr char kTools[] =
    R"([{"name":"set_light","parameters":{"room":"string","state":"string"}}])";
constexpr char kLights[] = "switch the cellar lights on";
constexpr char kLightsOn[] =
    R"(<tool_call>[{"name":"set_light","arguments":{"room":"cellar","state":"on"}}]</tool_call>)";

TEST_F(CommandTest, RunAnswersWithAToolCall) {
  WriteFile(File("tools.json"), kTools);
  const std::string archive = Testdata(kFixtureArchive);
  for (const char* numerics : {"float", "a8", "kernel"}) {
    EXPECT_EQ(
        Expect(0, {"run", archive, "--tools", File("tools.json"), kLights, "--numerics", numerics})
            .out,
        absl::StrCat(kLightsOn, "\n"));
  }
  EXPECT_EQ(
      Expect(0, {"run", Testdata(kFixtureCheckpoint), "--tools", File("tools.json"), kLights}).out,
      absl::StrCat(kLightsOn, "\n"));
  const base::Json json =
      Expect(0, {"run", archive, "--tools", File("tools.json"), kLights, "--json"}).Json();
  EXPECT_EQ(json["calls"][0]["arguments"]["room"], "cellar");
  EXPECT_EQ(json["numerics"], "kernel");
  EXPECT_EQ(json["stop"], "eos");

  ProgramCall stream;
  stream.arguments = {"run", archive, "--tools", "-", kLights, "--stream"};
  stream.input = kTools;
  EXPECT_THAT(RunProgram(stream).out, HasSubstr(kLightsOn));
}

TEST_F(CommandTest, RunTakesAnyTextAndPrintsUtf8) {
  ProgramCall call;
  call.arguments = {"run", Testdata(kFixtureArchive), "-", "--json", "--max-new-tokens", "3"};
  for (const std::string& query :
       {std::string("\xE6\x98\x8E\xE6\x97\xA5"), std::string("\xE6\xAD"), std::string("\xFF"),
        std::string("a\0b", 3), std::string("\xF0\x9F\x98\x80")}) {
    call.input = query;
    const ProgramResult result = RunProgram(call);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(result.Json().contains("text"));
  }
  WriteFile(File("tools.json"), R"([{"name":"\ud800"}])");
  EXPECT_THAT(Expect(2, {"run", Testdata(kFixtureArchive), "x", "--tools", File("tools.json")}).err,
              HasSubstr("(byte 17)"));
}

TEST_F(CommandTest, RunTakesTokenIds) {
  EXPECT_THAT(
      Expect(0, {"run", Testdata(kOddArchive), "--token-ids", "1,2,3", "--max-new-tokens", "2"})
          .out,
      ::testing::MatchesRegex("[0-9]+,[0-9]+\n"));
  EXPECT_THAT(Expect(2, {"run", Testdata(kOddArchive), "--token-ids", "1,x"}).err,
              HasSubstr("'x'"));
  EXPECT_THAT(Expect(2, {"run", Testdata(kOddArchive), "--token-ids", "999999"}).err,
              HasSubstr("999999"));
  EXPECT_THAT(Expect(3, {"run", Testdata(kOddArchive), "a query"}).err, HasSubstr("tokenizer"));
}

TEST_F(CommandTest, CodebookPrintsTheReferenceNumbers) {
  // be085e47, the first entry of the specification's table, is -0.1331721.
  EXPECT_THAT(Expect(0, {"codebook"}).out, HasSubstr("-0.1331721"));
  const base::Json json = Expect(0, {"codebook", "--json"}).Json();
  EXPECT_EQ(json["codebooks"][2]["width"], "CQ2");
  EXPECT_EQ(json["codebooks"][2]["theory"], 0.1175);
  // 0.4528 / sqrt(128), the exact quantiser's inner level.
  EXPECT_NEAR(Expect(0, {"codebook", "--codebook", "analytic", "--json"})
                  .Json()["codebooks"][2]["entries"][2]
                  .get<double>(),
              0.4528 / 11.3137085, 1e-5);
}

TEST_F(CommandTest, SynthTakesOtherValuesOfTheConfig) {
  std::vector<std::string> arguments = SmallSynth(File("s.safetensors"));
  arguments.push_back("--json");
  const base::Json report = Expect(0, arguments).Json();
  EXPECT_EQ(report["config"]["num_layers"], 2);
  Expect(0, {"build", File("s.safetensors"), "-o", File("s.cact"), "-q"});
  const base::Json archive = Expect(0, {"inspect", File("s.cact"), "--json"}).Json();
  EXPECT_EQ(archive["header"]["num_layers"], 2);
  EXPECT_EQ(archive["header"]["d_model"], 128);
}

TEST_F(CommandTest, SynthNamesABadSetting) {
  for (const char* setting : {"num_layer=2", "num_layers", "=2", "num_layers=two", "num_layers="}) {
    const ProgramResult result =
        Expect(2, {"synth", "--set", setting, "-o", File("s.safetensors")});
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("--set \"", setting, "\"")));
  }
  EXPECT_THAT(Expect(2, {"synth", "--set", "num_layers=65", "-o", File("s.safetensors")}).err,
              HasSubstr("num_layers"));
  EXPECT_THAT(folder_.Names(), ::testing::IsEmpty());
}

// A limit that cannot be meant, or that nothing would be held to, is wrong usage.
TEST_F(CommandTest, LimitsMakeSense) {
  const std::string archive = Testdata(kFixtureArchive), data = Testdata("fixture/held.jsonl");
  const std::vector<std::string> against = {"verify", archive, "--against",
                                            Testdata(kFixtureCheckpoint)};
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--max-tensor-ratio", "-3"},
                                                        {"--max-group-nmse", "-0.1"},
                                                        {"--max-mean-kl", "-1"},
                                                        {"--max-kl", "nan"},
                                                        {"--max-kl", "inf"},
                                                        {"--min-top1", "99"},
                                                        {"--min-top1", "-0.5"}}) {
    std::vector<std::string> arguments = against;
    arguments.insert(arguments.end(), {option, value});
    EXPECT_THAT(Expect(2, arguments).err, HasSubstr(option + ": '" + value + "'"));
  }
  EXPECT_THAT(Expect(2, {"verify", archive, "--max-tensor-ratio", "3"}).err,
              HasSubstr("--max-tensor-ratio needs --against"));
  std::vector<std::string> unread = against;
  unread.insert(unread.end(), {"--no-forward", "--min-top1", "0.9"});
  EXPECT_THAT(Expect(2, unread).err, HasSubstr("exclude"));
  for (const char* option : {"--limit", "--max-new-tokens", "--max-tokens"}) {
    EXPECT_THAT(Expect(2, {"eval", archive, "--data", data, option, "0"}).err, HasSubstr(option));
  }
  EXPECT_THAT(Expect(2, {"eval", archive, "--data", data, "--max-tokens", "2"}).err,
              HasSubstr("leaves nothing"));
}

TEST_F(CommandTest, VerifyListsTenFailuresOfAKind) {
  const std::vector<std::string> arguments = {
      "verify",       Testdata(kFixtureArchive), "--against", Testdata(kFixtureCheckpoint),
      "--no-forward", "--max-tensor-ratio",      "0"};
  const auto count = [](const std::string& text, const std::string& line_start) {
    size_t lines = 0;
    for (size_t i = text.find(line_start); i != std::string::npos; i = text.find(line_start, i + 1))
      ++lines;
    return lines;
  };
  const std::string report = Expect(4, arguments).out;
  EXPECT_EQ(count(report, "  failure: "), 11U);
  EXPECT_THAT(report, HasSubstr("computed for 40 matrices"));
  EXPECT_THAT(report, HasSubstr("  failure: and 30 more\n"));
  std::vector<std::string> quiet = arguments;
  quiet.push_back("-q");
  EXPECT_EQ(count(Expect(4, quiet).err, "error: "), 11U);
}

}  // namespace
}  // namespace needle::tests
