// tests/quant/simd_targets.h: runs a check once for every instruction set of this machine.
#ifndef NEEDLE_TESTS_QUANT_SIMD_TARGETS_H_
#define NEEDLE_TESTS_QUANT_SIMD_TARGETS_H_

#include <functional>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace needle::tests {

// Calls `check` with Highway's dispatch fixed to each target that was compiled and that this
// machine has, then frees the choice again.
inline void ForEachSimdTarget(const std::function<void()>& check) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_QUANT_SIMD_TARGETS_H_
