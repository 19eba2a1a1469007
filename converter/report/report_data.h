// converter/report/report_data.h: what a report says of an archive, as numbers; report_json and
// report_html print them.
#ifndef NEEDLE_CONVERTER_REPORT_REPORT_DATA_H_
#define NEEDLE_CONVERTER_REPORT_REPORT_DATA_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "converter/report/histograms.h"
#include "converter/verify/divergence.h"
#include "converter/verify/eval.h"
#include "engine/numerics.h"
#include "format/width.h"

namespace needle::report {

struct Summary {
  std::string archive = {};     // path
  std::string against = {};     // the checkpoint's path; empty: none
  std::string data = {};        // of the examples; empty: none
  std::string generation = {};  // "Needle 3"
  uint32_t layers = 0;
  uint32_t d_model = 0;
  uint32_t vocab = 0;
  uint32_t max_seq_len = 0;
  uint32_t kv_window = 0;
  uint32_t kv_bits = 0;
  uint64_t file_bytes = 0;
  uint64_t cq_weights = 0;        // in matrices, without padding
  double bits_per_weight = 0;     // of the CQ blobs, norms and padding included
  std::string bit_map = {};       // in the grammar, layers and sites as numbered in the archive
  uint64_t tokenizer_pieces = 0;  // 0: no tokenizer
  std::vector<std::string> heads = {};
};

// Bytes of one kind of content. All rows together are the file.
struct SizeRow {
  std::string kind = {};
  uint64_t tensors = 0;
  uint64_t values = 0;  // logical; 0 where nothing is counted
  uint64_t bytes = 0;
};

// A CQ tensor. Errors are squared errors over squared weights.
struct TensorRow {
  std::string name = {};
  std::string place = {};  // "embedding", "layer 3", "mhc", "engram 0", "heads"
  std::string role = {};   // "q_proj"
  format::Width width = format::Width::kCq2;
  uint64_t rows = 0;
  uint64_t cols = 0;
  uint64_t bytes = 0;
  // Against the checkpoint; meaningless without one.
  double error = 0;
  double worst_group = 0;   // of a group of 128 weights
  double plain_groups = 0;  // share of groups that are bit for bit those of plain rounding
};

// All CQ tensors of a place, each weighted by its number of weights.
struct PlaceRow {
  std::string place = {};
  uint64_t weights = 0;
  double error = 0;
  double theory = 0;
};

// Some positions of the answers, over all examples.
struct PositionRow {
  size_t first = 0;  // tokens of the answer, from 0
  size_t last = 0;
  verify::Divergence divergence = {};
};

// One way of running one of the models. The first is what the others are compared with.
struct RunRow {
  std::string label = {};
  verify::CallCounts calls = {};
  uint64_t positions = 0;
  double perplexity = 1;
  std::optional<verify::Divergence> divergence = {};
  double sequences_exact = 0;
  std::vector<PositionRow> by_position = {};
};

// An example whose answer is not that of the first run.
struct ChangedExample {
  size_t line = 0;
  std::string query = {};
  std::string wanted = {};  // compact JSON
  std::string reference = {};
  std::string answer = {};
  bool reference_exact = false;
  bool exact = false;
};

struct ReportData {
  Summary summary = {};
  std::vector<SizeRow> sizes = {};
  std::vector<TensorRow> tensors = {};  // in file order
  std::vector<IndexHistogram> indices = {};
  NormHistogram norms = {};
  // Against the checkpoint.
  std::vector<PlaceRow> places = {};
  uint64_t failures = 0;  // of verifying the tensors, and the first of them
  std::vector<std::string> failure_texts = {};
  // With examples.
  uint64_t examples = 0;
  uint64_t too_long = 0;  // examples whose prompt leaves no room to answer
  std::vector<RunRow> runs = {};
  size_t device_run = 0;  // number of the archive's run in kernel numerics
  uint64_t changed = 0;   // examples, of which `changes` lists the first
  uint64_t lost = 0;      // exact in the first run and not in device_run
  uint64_t gained = 0;    // the reverse
  std::vector<ChangedExample> changes = {};

  bool has_errors() const { return !places.empty(); }
};

}  // namespace needle::report

#endif  // NEEDLE_CONVERTER_REPORT_REPORT_DATA_H_
