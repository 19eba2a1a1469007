// converter/calibrate/calibration_set.h: the texts that a model is calibrated with.
#ifndef NEEDLE_CONVERTER_CALIBRATE_CALIBRATION_SET_H_
#define NEEDLE_CONVERTER_CALIBRATE_CALIBRATION_SET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/verify/eval_data.h"
#include "engine/tokenizer.h"
#include "format/geometry.h"

namespace needle::calibrate {

struct Example {
  std::vector<uint32_t> tokens;
  // Where the answer starts: the positions before its tokens and EOS count in full, all others with
  // kPromptWeight. 0: there is no answer, every position counts in full.
  size_t answer_start = 0;
};

struct CalibrationSet {
  std::string name;    // path, or "self"
  std::string sha256;  // of the file, or of the tokens that the model wrote
  std::vector<Example> fit = {};
  std::vector<Example> guard = {};  // every eighth example, held out
  // The guard part as it was read, when the file was JSON Lines.
  std::vector<verify::EvalExample> guard_examples = {};
  std::vector<std::string> warnings = {};
};

// Weight of a position that predicts no token of an answer.
inline constexpr float kPromptWeight = 0.1F;
// Weight of each position of an example.
std::vector<float> PositionWeights(const Example& example);
// Positions of weight 1.
uint64_t CountAnswerPositions(const std::vector<Example>& examples);
uint64_t CountTokens(const std::vector<Example>& examples);

struct SetLimits {
  size_t max_tokens = 0;          // of all examples; at least one is taken
  size_t max_example_tokens = 0;  // an example is cut there, and at max_seq_len
};

// `path`: JSON Lines when it ends in .jsonl, otherwise plain text, cut into pieces. NotFound and
// the like as of base::MappedFile; DataLoss: as of verify::ParseExamples, or there is no text.
absl::StatusOr<CalibrationSet> ReadCalibrationSet(const std::string& path,
                                                  const engine::Tokenizer& tokenizer,
                                                  const format::Geometry& geometry,
                                                  const SetLimits& limits);
// Whether example number `i` of all, from 0, is held out: every eighth.
bool IsGuard(size_t i);
// Every eighth of `examples` (as many as fit into max_tokens) to the guard part.
void Split(std::vector<Example> examples, const SetLimits& limits, CalibrationSet& set);

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_CALIBRATION_SET_H_
