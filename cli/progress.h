// cli/progress.h: how far a long command is, on standard error.
#ifndef NEEDLE_CLI_PROGRESS_H_
#define NEEDLE_CLI_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace needle::cli {

// A bar that redraws itself on a terminal; elsewhere a plain line at most once in two seconds, so
// that logs stay short. Update may be called from any one thread at a time.
class Progress {
 public:
  // `unit`: what is counted, in the plural ("tensors", "examples"). `shown` false: never prints.
  Progress(std::string unit, bool shown);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of `total` units; `bytes_done` of `bytes_total` bytes when there are bytes to tell of.
  void Update(uint64_t done, uint64_t total, uint64_t bytes_done = 0, uint64_t bytes_total = 0);
  // Removes the bar; later updates print nothing.
  void Finish();

 private:
  using Clock = std::chrono::steady_clock;
  std::string Line(uint64_t done, uint64_t total, uint64_t bytes_done, uint64_t bytes_total,
                   double seconds) const;

  std::string unit_;
  bool shown_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace needle::cli

#endif  // NEEDLE_CLI_PROGRESS_H_
