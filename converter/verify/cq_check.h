// converter/verify/cq_check.h: rows of a CQ tensor against the floats they were made from.
// Specification: "Encoding one group", "Determinism" (the permitted ties).
#ifndef NEEDLE_CONVERTER_VERIFY_CQ_CHECK_H_
#define NEEDLE_CONVERTER_VERIFY_CQ_CHECK_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "converter/tensor_encoder.h"
#include "converter/verify/tensor_report.h"
#include "converter/verify/tensor_work.h"
#include "format/archive.h"
#include "quant/codebook.h"

namespace needle::verify {

// Sums for the correlation of two series.
struct Correlation {
  uint64_t count = 0;
  double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  void Add(double a, double b);
  void Add(const Correlation& other);
  // 0 when one series does not vary and the other does; 1 when neither does.
  double Value() const;
};

// Sums for the cosine of the angle between two vectors.
struct Cosine {
  double aa = 0, bb = 0, ab = 0;
  void Add(const Cosine& other);
  double Value() const;  // 0 when one of them is zero
};

// What comparing rows gave. Every group is one of: bit for bit plain rounding, plain rounding but
// for permitted ties, or other.
struct CqTally {
  uint64_t groups = 0;
  uint64_t plain_groups = 0;
  uint64_t index_ties = 0;
  uint64_t norm_ties = 0;
  uint64_t other_groups = 0;
  uint64_t other_norms = 0;  // of the other groups: those whose indices are plain rounding's
  double squared_error = 0;  // of stored values, in the rotated domain, padding included
  double squared_weights = 0;
  WorstGroup worst;
  Correlation norms;  // of the other groups: the norm that fits the stored indices best, the stored
  Cosine direction;   // of the other groups: stored values, source
  // Groups past far_group_nmse, or no number at all, with the error that is held to a limit. In
  // order.
  std::vector<WorstGroup> far_groups;
  std::vector<std::string> other_texts;  // the first few

  // `next`: of the rows that follow.
  void Add(const CqTally& next);
};

// Compares rows of one tensor. Holds buffers: one for each thread. View and codebook must outlive
// it.
class CqRowCheck {
 public:
  // `far_group_nmse`: of a group's squared weights, or of the mean group's of its row when those
  // are more (feedback may spend error on groups that hardly matter).
  CqRowCheck(const format::CqView& view, const quant::Codebook& codebook, double far_group_nmse);

  // `weights`: rows [first, first + rows) of the source. When all of them are stored bit for bit as
  // plain rounding gives them, adds them to `tally`, without a worst group, and returns true;
  // otherwise changes nothing. As fast as encoding. DataLoss: as of quant::EncodeRows.
  absl::StatusOr<bool> AddIfPlain(std::span<const float> weights, uint64_t first, uint64_t rows,
                                  CqTally& tally);

  // `weights`: row `row` of the source, view.layout.cols values. Adds to `tally`. DataLoss: as of
  // quant::EncodeRows, for the source's values.
  absl::Status Check(std::span<const float> weights, uint64_t row, CqTally& tally);

  // `weights`: the rows of `range`. Each group must hold what `encoder` chooses for it, bit for
  // bit: then it counts as plain, else as other. Errors as of TensorEncoder::Encode.
  absl::Status CheckChosen(const converter::TensorEncoder& encoder, const RowRange& range,
                           std::span<const float> weights, CqTally& tally);

 private:
  struct Group;
  void Judge(std::span<const float> weights, uint64_t row, uint64_t group, CqTally& tally);
  void JudgeIndices(Group& result);
  void MeasureError(Group& result) const;
  std::string Describe(const Group& group) const;
  void CloseRow(uint64_t row, CqTally& tally);

  format::CqView view_;
  const quant::Codebook& codebook_;
  double far_group_nmse_;
  uint64_t group_bytes_;  // packed indices of a group
  // Of the rows that AddIfPlain looks at.
  std::vector<uint8_t> plain_rows_;
  std::vector<uint16_t> plain_norms_;
  // Of the group at hand.
  std::vector<uint8_t> plain_bytes_;
  uint16_t plain_norm_ = 0;
  std::span<const uint8_t> stored_bytes_;
  uint16_t stored_norm_ = 0;
  std::vector<uint8_t> plain_codes_;
  std::vector<uint8_t> stored_codes_;
  std::vector<double> rotated_;
  // Of the row at hand.
  struct GroupError {
    uint64_t group;
    double squared_error;
    double squared_weights;
  };
  std::vector<GroupError> errors_;
  double row_squared_weights_ = 0;
};

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_CQ_CHECK_H_
