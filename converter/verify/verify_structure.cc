#include "converter/verify/verify_structure.h"

#include <algorithm>
#include <bit>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "format/hada_permutation.h"
#include "format/kv_window.h"

namespace needle::verify {
namespace {

using format::DType;
using quant::CodebookKind;

// Failures that are put in words; all are counted.
constexpr size_t kListed = 32;

void Fail(StructureReport& report, std::string text) {
  ++report.num_failures;
  if (report.failures.size() < kListed) report.failures.push_back(std::move(text));
}

void CountTensor(const format::Archive& archive, size_t position, StructureReport& report) {
  const format::TensorSpec& spec = archive.schema().tensors()[position];
  ++report.tensors;
  switch (spec.dtype) {
    case DType::kF16:
      ++report.fp16_tensors;
      break;
    case DType::kF32:
      ++report.fp32_tensors;
      break;
    case DType::kRaw:
      ++report.raw_tensors;
      break;
    case DType::kCq:
      ++report.cq_tensors[archive.Cq(position).width];
      report.weights += format::NumValues(spec.shape).value_or(0);
      break;
  }
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

// "cb2[1]" for the second of the 28 values' names by width.
std::string EntryName(size_t index) {
  if (index < 4) return absl::StrFormat("cb2[%d]", index);
  return index < 12 ? absl::StrFormat("cb3[%d]", index - 4)
                    : absl::StrFormat("cb4[%d]", index - 12);
}

void CheckCodebooks(const format::Archive& archive, const StructureOptions& options,
                    StructureReport& report) {
  const std::span<const float> found = archive.codebooks();
  if (found.empty()) {
    report.notes.push_back("codebooks: none stored");
    return;
  }
  for (const CodebookKind kind : {CodebookKind::kReference, CodebookKind::kAnalytic}) {
    if (SameBits(found, quant::StoredCodebooks(kind))) report.codebooks = kind;
  }
  if (report.codebooks) return;
  const auto wanted = quant::StoredCodebooks(CodebookKind::kReference);
  for (size_t i = 0; i < std::min(found.size(), wanted.size()); ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(found[i]);
    const uint32_t wanted_bits = std::bit_cast<uint32_t>(wanted[i]);
    if (bits == wanted_bits) continue;
    std::string text =
        absl::StrFormat("codebooks: %s is %.9g (0x%08x), the reference has %.9g (0x%08x)",
                        EntryName(i), found[i], bits, wanted[i], wanted_bits);
    if (options.allow_other_codebooks) {
      report.notes.push_back(std::move(text));
    } else {
      Fail(report, std::move(text));
    }
  }
}

void CheckNorms(const format::CqView& view, const std::string& name, StructureReport& report) {
  const uint64_t count = view.layout.rows * view.layout.groups;
  report.norms += count;
  for (uint64_t i = 0; i < count; ++i) {
    const uint16_t bits = base::LoadLe<uint16_t>(&view.norms[2 * i]);
    if (bits == 0) ++report.zero_norms;
    if (bits != 0 && (bits & 0x7C00U) == 0) ++report.subnormal_norms;
    if ((bits & 0x8000U) == 0) continue;
    Fail(report, absl::StrFormat("%s: row %d, group %d: norm %g (0x%04X), want no sign", name,
                                 i / view.layout.groups, i % view.layout.groups,
                                 base::F32FromF16(bits), bits));
  }
}

bool IsPermutation(std::span<const float> values, std::span<const uint32_t> wanted) {
  return std::ranges::equal(values, wanted, [](float value, uint32_t number) {
    return value == static_cast<float>(number);
  });
}

void CheckPermutation(const format::Archive& archive, format::TensorRole role, uint32_t seed,
                      StructureReport& report) {
  const auto position = archive.schema().Find({role});
  if (!position) return;
  const std::vector<float> values = archive.Floats(*position);
  const uint32_t n = archive.geometry().hada_n;
  for (const bool split : {false, true}) {
    if (IsPermutation(values, format::HadaPermutation(n, seed, split))) return;
  }
  const std::vector<uint32_t> wanted = format::HadaPermutation(n, seed, false);
  const auto differs =
      std::mismatch(values.begin(), values.end(), wanted.begin(),
                    [](float a, uint32_t b) { return a == static_cast<float>(b); });
  Fail(report,
       absl::StrFormat("%s: neither the plain nor the split permutation of %d: value %d is %g, the "
                       "plain one has %d",
                       archive.schema().tensors()[*position].name, n,
                       differs.first - values.begin(), *differs.first, *differs.second));
}

void CheckKvWindow(const format::Geometry& geometry, StructureReport& report) {
  report.budget_kv_window = format::BudgetKvWindow(geometry);
  if (geometry.kv_window == 0) {
    report.notes.push_back("kv_window: 0, a reader sizes the cache by its budget alone");
  } else if (geometry.kv_window > report.budget_kv_window) {
    Fail(report, absl::StrFormat("kv_window: %d, want at most %d (the KV budget)",
                                 geometry.kv_window, report.budget_kv_window));
  }
}

// The parts of a report that tensors add, in order.
void AddPart(StructureReport part, StructureReport& report) {
  report.norms += part.norms;
  report.zero_norms += part.zero_norms;
  report.subnormal_norms += part.subnormal_norms;
  report.num_failures += part.num_failures - part.failures.size();
  for (std::string& text : part.failures) Fail(report, std::move(text));
}

void CheckMatrices(const format::Archive& archive, size_t threads, StructureReport& report) {
  const size_t count = archive.records().size();
  std::vector<StructureReport> parts(count);
  base::ThreadPool pool(base::ResolveThreads(threads));
  pool.ParallelFor(count, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t i = begin; i < end; ++i) {
      const format::TensorSpec& spec = archive.schema().tensors()[i];
      if (spec.dtype != DType::kCq) continue;
      CheckNorms(archive.Cq(i), spec.name, parts[i]);
    }
  });
  for (StructureReport& part : parts) AddPart(std::move(part), report);
}

}  // namespace

StructureReport VerifyStructure(const format::Archive& archive, const StructureOptions& options) {
  StructureReport report{.archive = archive.path()};
  for (size_t i = 0; i < archive.records().size(); ++i) CountTensor(archive, i, report);
  CheckCodebooks(archive, options, report);
  CheckKvWindow(archive.geometry(), report);
  CheckPermutation(archive, format::TensorRole::kHadaP1, format::kHadaP1Seed, report);
  CheckPermutation(archive, format::TensorRole::kHadaP2, format::kHadaP2Seed, report);
  CheckMatrices(archive, options.threads, report);
  return report;
}

}  // namespace needle::verify
