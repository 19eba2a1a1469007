#include "converter/tokenizer_source.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::converter {
namespace {

using format::Generation;
using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::ReadBytes;
using tests::StatusIs;
using tests::TempFolder;
using tests::Testdata;

TEST(TokenizerSourceTest, GivesTheReferencesAttachment) {
  const auto bpe = LoadTokenizer(Testdata("fixture/tokenizer.model"), Generation::kNeedle3, 640);
  ASSERT_OK(bpe);
  EXPECT_TRUE(*bpe == ReadBytes(Testdata("tokenizer/bpe.attachment")));
  const auto prefix =
      LoadTokenizer(Testdata("tokenizer/bpe-dummy-prefix.model"), Generation::kNeedle3, 640);
  ASSERT_OK(prefix);
  EXPECT_TRUE(*prefix == ReadBytes(Testdata("tokenizer/bpe-dummy-prefix.attachment")));
}

TEST(TokenizerSourceTest, CopiesAnArchivesAttachment) {
  const auto copied = LoadTokenizer(Testdata("fixture/cq2.cact"), Generation::kNeedle3, 640);
  ASSERT_OK(copied);
  EXPECT_TRUE(*copied == ReadBytes(Testdata("tokenizer/bpe.attachment")));
  EXPECT_THAT(LoadTokenizer(Testdata("golden/n3-pad/cq2.cact"), Generation::kNeedle3, 640),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no tokenizer")));
}

TEST(TokenizerSourceTest, ModelsThatTheAttachmentCannotExpressAreRefusedByName) {
  const auto refused = [](const std::string& name, const std::string& reason) {
    EXPECT_THAT(LoadTokenizer(Testdata("tokenizer/refused-" + name + ".model"),
                              Generation::kNeedle3, 100'000),
                StatusIs(absl::StatusCode::kUnimplemented,
                         AllOf(HasSubstr("refused-" + name), HasSubstr(reason))));
  };
  refused("unigram", "unigram");
  refused("nmt-nfkc", "normaliser \"nmt_nfkc\"");
  refused("collapses-spaces", "collapses spaces");
  refused("no-bytes", "byte pieces");
}

TEST(TokenizerSourceTest, MorePiecesThanVocabIsRefusedAndFewerIsNot) {
  const std::string model = Testdata("fixture/tokenizer.model");
  EXPECT_OK(LoadTokenizer(model, Generation::kNeedle3, 645));
  EXPECT_THAT(LoadTokenizer(model, Generation::kNeedle3, 639),
              StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("640"), HasSubstr("639"))));
}

TEST(TokenizerSourceTest, FilesThatAreNoModelAreRefused) {
  const TempFolder folder;
  const std::string model = tests::ReadFile(Testdata("fixture/tokenizer.model"));
  for (const std::string& bytes :
       {std::string("hello"), model.substr(0, model.size() / 2), std::string(100, '\xff')}) {
    tests::WriteFile(folder.File("t.model"), bytes);
    EXPECT_THAT(LoadTokenizer(folder.File("t.model"), Generation::kNeedle3, 640),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("t.model")));
  }
  tests::WriteFile(folder.File("t.model"), "");
  EXPECT_FALSE(LoadTokenizer(folder.File("t.model"), Generation::kNeedle3, 640).ok());
  EXPECT_THAT(LoadTokenizer(folder.File("none.model"), Generation::kNeedle3, 640),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none.model")));
}

}  // namespace
}  // namespace needle::converter
