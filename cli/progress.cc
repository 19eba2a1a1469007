#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/output.h"

namespace needle::cli {
namespace {

constexpr std::chrono::milliseconds kRedraw(50);
constexpr std::chrono::milliseconds kPlainLine(2000);
constexpr int kBarWidth = 24;

std::string Bar(double fraction) {
  const int filled = static_cast<int>(std::lround(fraction * kBarWidth));
  return absl::StrCat("[", std::string(static_cast<size_t>(filled), '#'),
                      std::string(static_cast<size_t>(kBarWidth - filled), '.'), "]");
}

std::string LeftText(double seconds) {
  const auto left = static_cast<int64_t>(std::ceil(seconds));
  return absl::StrFormat("%d:%02d left", left / 60, left % 60);
}

}  // namespace

Progress::Progress(std::string unit, bool shown)
    : unit_(std::move(unit)), shown_(shown), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { Finish(); }

std::string Progress::Line(uint64_t done, uint64_t total, uint64_t bytes_done, uint64_t bytes_total,
                           double seconds) const {
  const bool has_bytes = bytes_total > 0;
  const double fraction = std::clamp(
      has_bytes ? static_cast<double>(bytes_done) / static_cast<double>(bytes_total)
                : static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(total, 1)),
      0.0, 1.0);
  std::string line = absl::StrFormat("%3.0f %%  %d of %d %s", fraction * 100, done, total, unit_);
  if (has_bytes && seconds > 0) {
    absl::StrAppendFormat(&line, "  %.0f MB/s", static_cast<double>(bytes_done) / 1e6 / seconds);
  }
  if (fraction > 0 && fraction < 1) {
    absl::StrAppend(&line, "  ", LeftText(seconds * (1 - fraction) / fraction));
  }
  return terminal_ ? absl::StrCat(Bar(fraction), " ", line) : line;
}

void Progress::Update(uint64_t done, uint64_t total, uint64_t bytes_done, uint64_t bytes_total) {
  if (!shown_) return;
  const Clock::time_point now = Clock::now();
  if (now - last_ < (terminal_ ? kRedraw : kPlainLine)) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::string line = Line(done, total, bytes_done, bytes_total, seconds);
  WriteToStandardError(terminal_ ? absl::StrCat("\r\x1b[K", line) : absl::StrCat(line, "\n"));
  drawn_ = true;
}

void Progress::Finish() {
  if (shown_ && terminal_ && drawn_) WriteToStandardError("\r\x1b[K");
  shown_ = false;
}

}  // namespace needle::cli
