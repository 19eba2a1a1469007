// converter/verify/verify_structure.h: what can be said of an archive without its source, beyond
// what format::Archive::Open refuses. Specification: "The .cact container", "Codebooks", "Packing".
#ifndef NEEDLE_CONVERTER_VERIFY_VERIFY_STRUCTURE_H_
#define NEEDLE_CONVERTER_VERIFY_VERIFY_STRUCTURE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "format/archive.h"
#include "quant/codebook.h"

namespace needle::verify {

struct StructureOptions {
  bool allow_other_codebooks = false;  // neither the reference's nor the analytic ones: a note
  size_t threads = 1;                  // 0: one per processor. Never shows in the report
};

struct StructureReport {
  std::string archive = {};
  uint64_t tensors = 0;
  std::map<format::Width, uint64_t> cq_tensors = {};  // by width
  uint64_t fp16_tensors = 0;
  uint64_t fp32_tensors = 0;
  uint64_t raw_tensors = 0;
  uint64_t weights = 0;          // of CQ tensors, without padding
  uint64_t norms = 0;            // checked, one by one
  uint64_t zero_norms = 0;       // groups that decode to zero
  uint64_t subnormal_norms = 0;  // below f16's normal range, not zero
  // Which codebooks the file carries; nothing when they are of no known kind, or not there.
  std::optional<quant::CodebookKind> codebooks = {};
  uint32_t budget_kv_window = 0;           // what a build without a configured window gives
  std::vector<std::string> failures = {};  // each names field or tensor, row and group
  uint64_t num_failures = 0;               // also those that were too many to list
  std::vector<std::string> notes = {};     // unusual, but no fault

  bool passed() const { return num_failures == 0; }
};

// Checks: the codebooks, entry by entry; the sign of every norm (an encoder gives none); the
// permutations (those of a build, plain or split); kv_window within the budget.
StructureReport VerifyStructure(const format::Archive& archive, const StructureOptions& options);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_VERIFY_STRUCTURE_H_
