// Prints logits in kernel numerics to the bit, for a test that runs this program once with each
// twin.
#include <cstdio>

#include "tests/engine/engine_testing.h"

int main() {
  using needle::engine::LoadGolden;
  for (const char* archive : {"n3-small/cq2.cact", "n3-odd/mixed.cact", "n2-small/cq2.cact"}) {
    const needle::engine::Model model = LoadGolden(archive, needle::engine::Numerics::kKernel, 2);
    const auto tokens = needle::engine::SomeTokens(model, 40);
    for (const float logit : Prefilled(model, tokens, needle::engine::Session::Logits::kAll)) {
      std::printf("%a\n", static_cast<double>(logit));
    }
  }
  return 0;
}
