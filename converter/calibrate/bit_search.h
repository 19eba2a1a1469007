// converter/calibrate/bit_search.h: the bit map that serves the model best at a given size.
// Specification: "Which width for which tensor: the bit map"; method and figures:
// docs/quantisation.md, "Bit search".
#ifndef NEEDLE_CONVERTER_CALIBRATE_BIT_SEARCH_H_
#define NEEDLE_CONVERTER_CALIBRATE_BIT_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/calibrate/calibrate.h"
#include "converter/calibrate/kl_meter.h"
#include "converter/checkpoint.h"
#include "converter/tensor_plan.h"
#include "format/width.h"

namespace needle::calibrate {

struct BitSearchOptions {
  // One of the two.
  std::optional<uint64_t> target_bytes;  // of the whole file, at most
  // Bits of an index, at most, averaged over the matrices that a bit map governs (padding counts,
  // norms do not): what `default=2` alone has is 2.
  std::optional<double> target_bits;
  // The recipe of the archive. `data` missing: text that the model writes, with a warning, also for
  // recipes that need none. `stats` must be missing: moments depend on widths. `progress` also gets
  // the phases "sensitivity" (counted in models) and "schemes".
  CalibrateOptions calibrate;
  // Text that each model is measured with: the guard part, then examples of the fit part, evenly
  // spread, up to so many tokens. Sensitivities of models of more than 15 million weights are
  // measured with fewer of these examples.
  size_t measure_tokens = 8192;
};

// One width for one tensor.
struct WidthSensitivity {
  format::Width width = format::Width::kCq2;
  uint64_t bytes = 0;  // that count towards the target
  double kl = 0;       // mean KL of the float model with only this tensor quantised
  double cost = 0;     // the same, made never to rise with the width: what is minimised
};

struct KeySensitivity {
  std::string key = {};  // "layer02.q_proj", "engram0.tables": numbered as in the checkpoint
  std::vector<WidthSensitivity> widths = {};  // narrow ones first
  format::Width chosen = format::Width::kCq2;
};

// A bit map, built with the recipe and measured in a8 numerics.
struct SchemeMeasure {
  std::string name = {};  // "found", "uniform", "default scheme"
  std::string bit_map = {};
  uint64_t file_bytes = 0;
  double bits = 0;       // as of BitSearchOptions::target_bits
  double predicted = 0;  // sum of costs
  KlFigures all = {};    // over all text that was measured with: decides
  KlFigures guard = {};  // over the guard part of it
};

struct BitSearchReport {
  std::string data = {};            // as of CalibrationReport
  size_t examples = 0;              // measured with
  size_t sensitivity_examples = 0;  // of them, for sensitivities
  size_t guard_examples = 0;        // of them
  uint64_t tokens = 0;
  std::vector<KeySensitivity> keys = {};
  std::vector<SchemeMeasure> schemes = {};  // the map that was found first
  size_t chosen = 0;                        // of schemes
  std::vector<std::string> warnings = {};   // as of CalibrationReport
};

struct BitSearch {
  // Of the scheme that was chosen; `calibration` is its, for BuildOptions::encoder.
  std::shared_ptr<const converter::TensorPlan> plan;
  Calibration calibration;
  BitSearchReport report;
};

// Widths 1, 2, 3 and 4 (ternary takes the bytes of 2 bits and holds less) for each tensor such that
// the sum of the tensors' costs is the least possible within the target, measured against the
// widest uniform scheme and the default scheme that fit; the best of these is kept. `plan`: its bit
// map is not read. Depends on the files, the text and the settings alone, not on threads.
// InvalidArgument: no target or both; one that even 1 bit everywhere exceeds, with the smallest
// that is possible. Otherwise as of Calibrate and TensorPlan::Make.
absl::StatusOr<BitSearch> SearchWidths(std::shared_ptr<const converter::Checkpoint> checkpoint,
                                       const converter::PlanOptions& plan,
                                       const BitSearchOptions& options);

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_BIT_SEARCH_H_
