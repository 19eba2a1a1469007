// base/stopwatch.h: how long something took, for reports; never for a decision.
#ifndef NEEDLE_BASE_STOPWATCH_H_
#define NEEDLE_BASE_STOPWATCH_H_

#include <chrono>

namespace needle::base {

// Starts when it is made.
class Stopwatch {
 public:
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace needle::base

#endif  // NEEDLE_BASE_STOPWATCH_H_
