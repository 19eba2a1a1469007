// "What makes a file invalid": a test a rule, each a good archive with one thing broken.

#include <limits>

#include "absl/strings/str_format.h"
#include "base/half.h"
#include "tests/format/broken_archive.h"

namespace needle::format {
namespace {

// Records of the tiny archive: embedding 0; layer00: norm_in 1, q_proj 2 ... q_norm 8 ... w1a 19;
// layer01 from 28; mhc_a_pre 55; hada_p1 64; engram0.tables 66; final_norm 74; heads.manifest 75;
// embedding_head.probes 76 ... router_head.calibration 94; tokenizer 95.
class ArchiveRulesTest : public BrokenArchiveTest {};

TEST_F(ArchiveRulesTest, RejectsAFileShorterThanItsDirectory) {
  bytes_.resize(196 + 4 * 28 + 96 * 44 - 1);
  ExpectRefused(
      "file size: 4531 bytes, want at least 4532 for the header, codebook_len 28 and num_tensors "
      "96");
}

TEST_F(ArchiveRulesTest, RejectsMoreTensorsThanTheFileHolds) {
  SetHeader("num_tensors", UINT32_MAX);
  ExpectRefused("file size: " + std::to_string(good_.size()) +
                " bytes, want at least 188978561288 for the header, codebook_len 28 and "
                "num_tensors 4294967295");
}

TEST_F(ArchiveRulesTest, RejectsACodebookThatTheFileDoesNotHold) {
  SetHeader("codebook_len", UINT32_MAX);
  ExpectRefused("file size: " + std::to_string(good_.size()) +
                " bytes, want at least 17179873600 for the header, codebook_len 4294967295 and "
                "num_tensors 96");
}

// Built without any tensor but those of 1 bit and ternary, and no codebooks in front of them.
TEST_F(ArchiveRulesTest, NeedsNoCodebookForBinaryAndTernary) {
  const auto schema = Schema::Make(TinyGeometry(Generation::kNeedle3), {}, false);
  ASSERT_OK(schema);
  const Header header = {TinyGeometry(Generation::kNeedle3), 0, 0};
  std::vector<CqFormat> formats(schema->tensors().size(), {Width::kTernary, 64});
  formats[0].width = Width::kBinary;
  const auto layout = ArchiveLayout::Make(header, *schema, formats, 0);
  ASSERT_OK(layout);
  std::vector<uint8_t> bytes = SerializeHeader(layout->header);
  bytes.resize(layout->file_bytes);
  for (size_t i = 0; i < layout->records.size(); ++i) {
    SerializeRecord(layout->records[i],
                    std::span(bytes).subspan(196 + 44 * i).first<kRecordBytes>());
    if (schema->tensors()[i].dtype != DType::kF32) continue;
    for (uint32_t value = 0; value < 8; ++value) {
      base::StoreLe(&bytes[layout->records[i].offset + 4 * value], static_cast<float>(value));
    }
  }
  Use(bytes);
  const auto archive = Archive::FromBytes(good_, "good");
  ASSERT_OK(archive);
  EXPECT_TRUE(archive->codebooks().empty());
  EXPECT_TRUE(archive->CodebookOf(Width::kCq4).empty());
  EXPECT_EQ(archive->Cq(0).group, 64U);

  SetRecord("layer00.q_proj", kBits, uint32_t{2});
  ExpectRefused("codebook_len: 0, want 28, as record 2 (layer00.q_proj) is CQ2");
}

TEST_F(ArchiveRulesTest, RejectsAnUnknownDType) {
  for (const uint8_t dtype : {uint8_t{0}, uint8_t{5}, uint8_t{255}}) {
    SetRecord("layer00.q_norm", kDType, dtype);
    ExpectRefused("record 8 (layer00.q_norm): dtype " + std::to_string(dtype) + ", want 1 to 4");
  }
}

TEST_F(ArchiveRulesTest, RejectsMoreThanFourDims) {
  SetRecord("layer00.q_norm", kNumDims, uint8_t{5});
  ExpectRefused("record 8 (layer00.q_norm): ndim 5, want at most 4");
}

TEST_F(ArchiveRulesTest, RejectsAnOffsetNotMultipleOf64) {
  const uint64_t offset = GoodRecord("layer00.q_norm").offset + 4;
  SetRecord("layer00.q_norm", kOffset, offset);
  ExpectRefused("record 8 (layer00.q_norm): offset " + std::to_string(offset) +
                ", want a multiple of 64");
}

TEST_F(ArchiveRulesTest, RejectsABlobPastTheEnd) {
  const uint64_t offset = (good_.size() / 64 + 1) * 64;
  SetRecord("layer00.q_norm", kOffset, offset);
  ExpectRefused("record 8 (layer00.q_norm): offset " + std::to_string(offset) +
                " and nbytes 4, want an end inside the file of " + std::to_string(good_.size()) +
                " bytes");
}

TEST_F(ArchiveRulesTest, RejectsAnEndThatWrapsAround) {
  SetRecord("layer00.q_norm", kOffset, UINT64_MAX - 63);
  SetRecord("layer00.q_norm", kNumBytes, uint64_t{128});
  ExpectRefused(
      "record 8 (layer00.q_norm): offset 18446744073709551552 and nbytes 128, want an end inside "
      "the file of " +
      std::to_string(good_.size()) + " bytes");
}

TEST_F(ArchiveRulesTest, RejectsBlobsThatOverlap) {
  const Record before = GoodRecord("layer00.q_norm");
  SetRecord("layer00.k_norm", kOffset, before.offset);
  ExpectRefused("record 9 (layer00.k_norm): offset " + std::to_string(before.offset) +
                ", want at least " + std::to_string(before.offset + 4) +
                ", the end of layer00.q_norm");
}

TEST_F(ArchiveRulesTest, RejectsABlobInsideTheDirectory) {
  SetRecord("embedding", kOffset, uint64_t{64});
  ExpectRefused("record 0 (embedding): offset 64, want at least 4532, the end of the directory");
}

TEST_F(ArchiveRulesTest, RejectsRecordsOfOneShapeThatAreSwapped) {
  const Record first = GoodRecord("layer00.d1");
  const Record second = GoodRecord("layer00.d2");
  SetRecord("layer00.d1", kOffset, second.offset);
  SetRecord("layer00.d2", kOffset, first.offset);
  ExpectRefused("record 16 (layer00.d2): offset " + std::to_string(first.offset) +
                ", want at least " + std::to_string(second.offset + 16) +
                ", the end of layer00.d1");
}

TEST_F(ArchiveRulesTest, RejectsAFirstBlobThatDoesNotFollowTheDirectory) {
  // All blobs 64 bytes further back, with a whole gap in front of them.
  bytes_.insert(bytes_.begin() + static_cast<std::ptrdiff_t>(BlobOffset(good_, "embedding")), 64,
                0);
  const auto archive = Archive::FromBytes(good_, "good");
  ASSERT_OK(archive);
  for (const TensorSpec& spec : archive->schema().tensors()) {
    SetRecord(spec.name, kOffset, GoodRecord(spec.name).offset + 64);
  }
  ExpectRefused(
      "record 0 (embedding): offset 4608, want the first multiple of 64 from the end of the "
      "directory, 4532, on");
}

TEST_F(ArchiveRulesTest, RejectsAGapThatIsNotZero) {
  const size_t at = BlobOffset(good_, "layer00.k_norm") - 1;
  bytes_[at] = 7;
  ExpectRefused("record 9 (layer00.k_norm): byte " + std::to_string(at) +
                " of the gap before it is 7, want 0");
}

TEST_F(ArchiveRulesTest, RejectsBytesAfterTheLastBlob) {
  bytes_.push_back(0);
  ExpectRefused("file size: " + std::to_string(bytes_.size()) + " bytes, want " +
                std::to_string(good_.size()) + ", the end of the last blob");
}

TEST_F(ArchiveRulesTest, RejectsNumBytesThatTheShapeDoesNotImply) {
  SetRecord("layer00.q_norm", kNumBytes, uint64_t{6});
  ExpectRefused("record 8 (layer00.q_norm): nbytes 6, want 4 for FP16 [2], group 0, bits 0");
}

TEST_F(ArchiveRulesTest, RejectsNumBytesThatTheWidthDoesNotImply) {
  // q_proj [4, 6] at its second turn: ternary, 4 rows of 32 + 2 bytes.
  ASSERT_EQ(GoodRecord("layer00.q_proj").bits, 5U);
  SetRecord("layer00.q_proj", kBits, uint32_t{4});
  ExpectRefused("record 2 (layer00.q_proj): nbytes 136, want 264 for CQ [4, 6], group 128, bits 4");
}

TEST_F(ArchiveRulesTest, RejectsAnHugeShapeWithoutBytes) {
  SetRecord("layer00.q_proj", kShape, UINT32_MAX);
  SetRecord("layer00.q_proj", kShape + 4, UINT32_MAX);
  SetRecord("layer00.q_proj", kNumBytes, uint64_t{0});
  ExpectRefused("record 2 (layer00.q_proj): shape [4294967295, 4294967295], want [4, 6]");
}

TEST_F(ArchiveRulesTest, RejectsCqThatIsNotTwoDimensional) {
  SetRecord("layer00.q_proj", kNumDims, uint8_t{3});
  ExpectRefused("record 2 (layer00.q_proj): ndim 3, want 2, as it is CQ");
}

TEST_F(ArchiveRulesTest, RejectsAGroupThatIsNoPowerOfTwo) {
  for (const uint32_t group : {0U, 3U, 127U}) {
    SetRecord("layer00.q_proj", kGroupField, group);
    ExpectRefused("record 2 (layer00.q_proj): group " + std::to_string(group) +
                  ", want a power of two");
  }
}

TEST_F(ArchiveRulesTest, RejectsAGroupThatFillsNoBytes) {
  SetRecord("layer00.q_proj", kGroupField, uint32_t{2});
  ExpectRefused(
      "record 2 (layer00.q_proj): group is not a power of two that fills whole "
      "bytes");
}

TEST_F(ArchiveRulesTest, RejectsBitsOutsideTheFiveWidths) {
  for (const uint32_t bits : {0U, 6U, 8U, 0x102U}) {
    SetRecord("layer00.q_proj", kBits, bits);
    ExpectRefused("record 2 (layer00.q_proj): bits " + std::to_string(bits) +
                  ", want 1, 2, 3, 4 or 5");
  }
}

TEST_F(ArchiveRulesTest, RejectsUnusedRecordFieldsThatAreNotZero) {
  SetRecord("layer00.q_norm", kReserved, uint16_t{256});
  ExpectRefused("record 8 (layer00.q_norm): bytes 2 and 3 hold 256, want 0");
  bytes_ = good_;
  SetRecord("layer00.q_norm", kShape + 12, uint32_t{1});
  ExpectRefused("record 8 (layer00.q_norm): shape[3] 1, want 0, as ndim is 1");
  bytes_ = good_;
  SetRecord("layer00.q_norm", kGroupField, uint32_t{128});
  ExpectRefused("record 8 (layer00.q_norm): group 128, want 0, as it is not CQ");
  bytes_ = good_;
  SetRecord("layer00.q_norm", kBits, uint32_t{2});
  ExpectRefused("record 8 (layer00.q_norm): bits 2, want 0, as it is not CQ");
}

TEST_F(ArchiveRulesTest, RejectsADTypeThatThePositionDoesNotHold) {
  SetRecord("layer00.q_norm", kDType, uint8_t{2});
  ExpectRefused("record 8 (layer00.q_norm): dtype FP32, want FP16");
}

TEST_F(ArchiveRulesTest, RejectsAShapeThatThePositionDoesNotHold) {
  SetRecord("layer00.w1a", kShape, uint32_t{4});
  SetRecord("layer00.w1a", kShape + 4, uint32_t{1});
  ExpectRefused("record 20 (layer00.w1a): shape [4, 1], want [2, 2]");
}

TEST_F(ArchiveRulesTest, RejectsTooFewTensors) {
  SetHeader("num_tensors", 74);
  ExpectRefused("num_tensors: 74, want at least 75");
}

TEST_F(ArchiveRulesTest, RejectsAHeadThatIsCutOff) {
  SetHeader("num_tensors", 94);
  ExpectRefused("num_tensors: 94, want at least 95 for the router_head");
}

TEST_F(ArchiveRulesTest, RejectsTooManyTensors) {
  SetHeader("num_tensors", 97);  // The directory then runs into the gap or blob behind it.
  ExpectRefused("num_tensors: 97, want 95, or 96 with a tokenizer");
}

TEST_F(ArchiveRulesTest, RejectsAManifestOfOtherHeads) {
  SetBlob("heads.manifest", 4, base::F16FromF32(4));
  ExpectRefused(
      "record 75 (heads.manifest): value 2 is 4, want the codes of Needle 3 heads, ascending");
  SetBlob("heads.manifest", 4, base::F16FromF32(1.5F));
  ExpectRefused(
      "record 75 (heads.manifest): value 2 is 1.5, want the codes of Needle 3 heads, ascending");
}

TEST_F(ArchiveRulesTest, RejectsAHeadGivenTwice) {
  SetBlob("heads.manifest", 4, base::F16FromF32(2));
  ExpectRefused(
      "record 75 (heads.manifest): value 2 is 2, want the codes of Needle 3 heads, ascending");
}

TEST_F(ArchiveRulesTest, RejectsAnEmptyManifest) {
  SetRecord("heads.manifest", kShape, uint32_t{0});
  SetRecord("heads.manifest", kNumBytes, uint64_t{0});
  ExpectRefused("record 75 (heads.manifest): shape [0], want a code for each head");
}

TEST_F(ArchiveRulesTest, RejectsAManifestOutsideTheFile) {
  SetRecord("heads.manifest", kOffset, UINT64_MAX - 63);
  ExpectRefused(
      "record 75 (heads.manifest): offset 18446744073709551552 and nbytes 6, want an end inside "
      "the file of " +
      std::to_string(good_.size()) + " bytes");
}

TEST_F(ArchiveRulesTest, RejectsProbesThatDoNotDivideAmongRows) {
  SetRecord("confidence_head.probes", kShape, uint32_t{7});  // 3 rows of 2 probes
  ExpectRefused("record 82 (confidence_head.probes): shape [7, 6], want [6, 6]");
}

TEST_F(ArchiveRulesTest, RejectsAHeadWithoutProbes) {
  SetRecord("confidence_head.probes", kShape, uint32_t{2});
  ExpectRefused("confidence_head: 0 probes, want at least 1");
}

TEST_F(ArchiveRulesTest, RejectsAConfidenceHeadWithTwoOutputs) {
  SetRecord("confidence_head.proj", kShape, uint32_t{2});
  ExpectRefused("confidence_head: 2 outputs, want 1");
}

TEST_F(ArchiveRulesTest, RejectsARouterWithoutThreeOutputs) {
  SetRecord("router_head.proj", kShape, uint32_t{4});
  ExpectRefused("router_head: 4 outputs, want 3");
}

TEST_F(ArchiveRulesTest, RejectsAHeadWhoseTensorsDisagree) {
  SetRecord("embedding_head.query", kShape, uint32_t{3});
  ExpectRefused(
      "record 78 (embedding_head.query): nbytes 132, want 198 for CQ [3, 6], group 128, "
      "bits 4");
}

TEST_F(ArchiveRulesTest, RejectsAHeadOfHugeDimensions) {
  SetRecord("embedding_head.query", kShape, UINT32_MAX);
  ExpectRefused("embedding_head: a dimension is more than 32 bits hold");
}

TEST_F(ArchiveRulesTest, RejectsAPermutationThatIsNone) {
  SetBlob("hada_p1", 4, 7.0F);  // p1 runs from 7 down
  ExpectRefused("record 64 (hada_p1): value 1 is 7, want each of 0 to 7 once");
  for (const float value : {6.5F, -1.0F, 8.0F, 1e30F}) {
    bytes_ = good_;
    SetBlob("hada_p2", 4, value);
    ExpectRefused(absl::StrFormat("record 65 (hada_p2): value 1 is %g, want each of 0 to 7 once",
                                  static_cast<double>(value)));
  }
}

TEST_F(ArchiveRulesTest, RejectsNanAndInfinityInFp32) {
  SetBlob("hada_p1", 4, std::numeric_limits<float>::quiet_NaN());
  ExpectRefused("record 64 (hada_p1): value 1 is nan, want a finite number");
  SetBlob("hada_p1", 4, -std::numeric_limits<float>::infinity());
  ExpectRefused("record 64 (hada_p1): value 1 is -inf, want a finite number");
}

TEST_F(ArchiveRulesTest, RejectsNanAndInfinityInFp16) {
  SetBlob("layer01.norm_in", 10, uint16_t{0x7E00});  // the last of six values
  ExpectRefused("record 28 (layer01.norm_in): value 5 is nan, want a finite number");
  SetBlob("layer01.norm_in", 10, uint16_t{0xFC00});
  ExpectRefused("record 28 (layer01.norm_in): value 5 is -inf, want a finite number");
}

TEST_F(ArchiveRulesTest, RejectsNanAndInfinityInNorms) {
  const Record record = GoodRecord("layer00.q_proj");
  const size_t norms = record.num_bytes - 4 * 2;  // four rows of one group
  SetBlob("layer00.q_proj", norms + 2 * 3, uint16_t{0x7C00});
  ExpectRefused(
      "record 2 (layer00.q_proj): the norm of row 3, group 0 is inf, want a finite number");
  SetBlob("layer00.q_proj", norms + 2 * 3, uint16_t{0x7C01});
  ExpectRefused(
      "record 2 (layer00.q_proj): the norm of row 3, group 0 is nan, want a finite number");
}

TEST_F(ArchiveRulesTest, RejectsTheTernaryCrumb2) {
  ASSERT_EQ(GoodRecord("layer00.q_proj").bits, 5U);
  SetBlob("layer00.q_proj", 32 + 9, uint8_t{0x2D});  // crumbs 1, 3, 2, 0
  ExpectRefused(
      "record 2 (layer00.q_proj): byte 9 of row 1 is 0x2D, want ternary crumbs 0, 1 or 3");
}

TEST_F(ArchiveRulesTest, AcceptsTheBitsOfCrumb2AtOtherWidths) {
  for (const char* name : {"embedding", "layer00.k_proj", "layer00.v_proj"}) {
    SetBlob(name, 0, uint8_t{0xAA});
  }
  EXPECT_OK(Archive::FromBytes(bytes_, "a.cact"));
}

TEST_F(ArchiveRulesTest, RejectsACodebookThatDoesNotAscend) {
  const std::string want = ", want finite numbers that ascend inside a codebook";
  base::StoreLe(&bytes_[196 + 4 * 5], -0.25F);  // the second of cb3
  ExpectRefused("codebooks: value 5 is -0.25" + want);
  bytes_ = good_;
  base::StoreLe(&bytes_[196 + 4 * 13], base::LoadLe<float>(&good_[196 + 4 * 12]));  // equal in cb4
  ExpectRefused("codebooks: value 13 is -0.239531547" + want);
}

TEST_F(ArchiveRulesTest, RejectsACodebookThatIsNotFinite) {
  const std::string want = ", want finite numbers that ascend inside a codebook";
  base::StoreLe(&bytes_[196], -std::numeric_limits<float>::infinity());
  ExpectRefused("codebooks: value 0 is -inf" + want);
  base::StoreLe(&bytes_[196 + 4 * 27], std::numeric_limits<float>::quiet_NaN());
  base::StoreLe(&bytes_[196], base::LoadLe<float>(&good_[196]));
  ExpectRefused("codebooks: value 27 is nan" + want);
}

TEST_F(ArchiveRulesTest, RejectsABrokenTokenizerByItsRecord) {
  SetBlob("tokenizer", 0, uint32_t{9});
  ExpectRefused("record 95 (tokenizer): n_pieces: 9, want at most vocab, 8");
}

// The marker of a speech archive stands where the heads end.
TEST_F(ArchiveRulesTest, RefusesWhistleByName) {
  const std::string message =
      "record 95: the marker of a speech archive (\"Whistle\"), which is not supported; want a "
      "Needle 3 text model";
  SetRecord("tokenizer", kDType, uint8_t{2});
  SetRecord("tokenizer", kNumDims, uint8_t{1});
  SetRecord("tokenizer", kShape, uint32_t{13});
  SetRecord("tokenizer", kNumBytes, uint64_t{52});
  SetBlob("tokenizer", 0, 3246.0F);
  ExpectRefused(message, absl::StatusCode::kUnimplemented);
  SetBlob("tokenizer", 0, 3247.0F);
  ExpectRefused("record 95 (tokenizer): dtype FP32, want RAW");
}

TEST_F(ArchiveRulesTest, RefusesWhistleWithoutHeads) {
  Use(MakeArchive(TinyGeometry(Generation::kNeedle3), {}, *TinyTokenizer().Serialize()));
  SetRecord("tokenizer", kDType, uint8_t{2});
  SetRecord("tokenizer", kNumDims, uint8_t{1});
  SetRecord("tokenizer", kShape, uint32_t{13});
  SetBlob("tokenizer", 0, 3246.0F);
  ExpectRefused(
      "record 75: the marker of a speech archive (\"Whistle\"), which is not supported; want a "
      "Needle 3 text model",
      absl::StatusCode::kUnimplemented);
}

TEST_F(ArchiveRulesTest, AcceptsHeadMatricesInFp16) {
  std::vector<HeadShape> heads = TinyHeads(Generation::kNeedle3);
  heads[1].fp16_matrices = true;
  const auto archive = Archive::FromBytes(
      MakeArchive(TinyGeometry(Generation::kNeedle3), heads, *TinyTokenizer().Serialize()), "fp16");
  ASSERT_OK(archive);
  EXPECT_EQ(archive->schema().heads(), heads);
  const auto probes = archive->schema().Find({TensorRole::kHeadProbes, 1});
  EXPECT_EQ(archive->schema().tensors()[*probes].shape, (std::vector<uint32_t>{3, 2, 6}));
}

TEST_F(ArchiveRulesTest, AcceptsAnArchiveOfEachGenerationWithAndWithoutExtras) {
  for (const Generation generation : {Generation::kNeedle2, Generation::kNeedle3}) {
    for (const auto& heads : {TinyHeads(generation), std::vector<HeadShape>{}}) {
      for (const auto& tokenizer : {*TinyTokenizer().Serialize(), std::vector<uint8_t>{}}) {
        const auto archive =
            Archive::FromBytes(MakeArchive(TinyGeometry(generation), heads, tokenizer), "a");
        ASSERT_OK(archive);
        EXPECT_EQ(archive->geometry(), TinyGeometry(generation));
        EXPECT_EQ(archive->schema().heads(), heads);
        EXPECT_EQ(archive->Tokenizer().has_value(), !tokenizer.empty());
      }
    }
  }
}

}  // namespace
}  // namespace needle::format
