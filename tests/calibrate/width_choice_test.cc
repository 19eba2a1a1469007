#include "converter/calibrate/width_choice.h"

#include <functional>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace needle::calibrate {
namespace {

using Groups = std::vector<std::vector<WidthOption>>;

struct Total {
  uint64_t bytes = 0;
  double cost = 0;
};

Total Sum(const Groups& groups, const std::vector<size_t>& choice) {
  Total total;
  for (size_t i = 0; i < groups.size(); ++i) {
    total.bytes += groups[i][choice[i]].bytes;
    total.cost += groups[i][choice[i]].cost;
  }
  return total;
}

// The best choice by trying all.
std::optional<Total> TryAll(const Groups& groups, uint64_t budget) {
  std::optional<Total> best;
  std::vector<size_t> choice(groups.size());
  const std::function<void(size_t)> extend = [&](size_t i) {
    if (i < groups.size()) {
      for (choice[i] = 0; choice[i] < groups[i].size(); ++choice[i]) extend(i + 1);
      return;
    }
    const Total total = Sum(groups, choice);
    if (total.bytes > budget) return;
    if (!best || total.cost < best->cost ||
        (total.cost == best->cost && total.bytes < best->bytes)) {
      best = total;
    }
  };
  extend(0);
  return best;
}

TEST(ChooseOptionsTest, IsAsGoodAsTryingAll) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    Groups groups(1 + random() % 5);
    for (auto& group : groups) {
      for (size_t i = 0; i < 1 + random() % 4; ++i) {
        // Costs of few digits, so that their sums are exact and ties come up.
        group.push_back({random() % 12, static_cast<double>(random() % 16) / 4});
      }
      if (group.empty()) group.push_back({1, 1});
    }
    const uint64_t budget = random() % 40;
    const std::optional<Total> wanted = TryAll(groups, budget);
    const auto choice = ChooseOptions(groups, budget);
    ASSERT_EQ(choice.has_value(), wanted.has_value());
    if (!choice) continue;
    EXPECT_EQ(Sum(groups, *choice).cost, wanted->cost);
    EXPECT_EQ(Sum(groups, *choice).bytes, wanted->bytes);
  }
}

TEST(ChooseOptionsTest, SaysWhenNothingFits) {
  EXPECT_EQ(ChooseOptions(Groups{{{5, 1}, {6, 0}}, {{5, 1}}}, 9), std::nullopt);
  EXPECT_EQ(ChooseOptions(Groups{{{5, 1}, {6, 0}}, {{5, 1}}}, 10), (std::vector<size_t>{0, 0}));
  EXPECT_EQ(ChooseOptions(Groups{{{5, 1}, {6, 0}}, {{5, 1}}}, 11), (std::vector<size_t>{1, 0}));
}

// Greedy by gain a byte would take the first group's step, after which the second's does not fit.
TEST(ChooseOptionsTest, FillsTheBudgetExactly) {
  EXPECT_EQ(ChooseOptions(Groups{{{0, 3}, {6, 0}}, {{0, 9}, {10, 4.5}}}, 10),
            (std::vector<size_t>{0, 1}));
}

TEST(NeverRisingTest, PoolsWhatRises) {
  EXPECT_EQ(NeverRising(std::vector<double>{4, 2, 1, 0}), (std::vector<double>{4, 2, 1, 0}));
  EXPECT_EQ(NeverRising(std::vector<double>{4, 1, 2, 0}), (std::vector<double>{4, 1.5, 1.5, 0}));
  EXPECT_EQ(NeverRising(std::vector<double>{1, 2, 6}), (std::vector<double>{3, 3, 3}));
  EXPECT_EQ(NeverRising(std::vector<double>{5, 5, 1, 3}), (std::vector<double>{5, 5, 2, 2}));
}

}  // namespace
}  // namespace needle::calibrate
