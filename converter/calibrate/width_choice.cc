#include "converter/calibrate/width_choice.h"

#include <algorithm>
#include <limits>

namespace needle::calibrate {
namespace {

// A choice for the first groups that no other beats.
struct State {
  uint64_t bytes = 0;
  double cost = 0;
  uint32_t parent = 0;  // of the states before the last group
  uint32_t option = 0;  // of the last group
};

// The fewest bytes that the groups from number i on need; one more element than groups.
std::vector<uint64_t> FewestBytes(std::span<const std::vector<WidthOption>> groups) {
  std::vector<uint64_t> fewest(groups.size() + 1, 0);
  for (size_t i = groups.size(); i-- > 0;) {
    uint64_t least = std::numeric_limits<uint64_t>::max();
    for (const WidthOption& option : groups[i]) least = std::min(least, option.bytes);
    fewest[i] = fewest[i + 1] + least;
  }
  return fewest;
}

// Every state with every option that stays within `budget`, then those that cost less than all of
// fewer or equal bytes.
std::vector<State> Extend(std::span<const State> states, std::span<const WidthOption> options,
                          uint64_t budget) {
  std::vector<State> all;
  for (uint32_t option = 0; option < options.size(); ++option) {
    for (uint32_t parent = 0; parent < states.size(); ++parent) {
      const uint64_t bytes = states[parent].bytes + options[option].bytes;
      if (bytes > budget) break;  // the states that follow are larger
      all.push_back({bytes, states[parent].cost + options[option].cost, parent, option});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const State& a, const State& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.cost < b.cost;
  });
  std::vector<State> kept;
  for (const State& state : all) {
    if (kept.empty() || state.cost < kept.back().cost) kept.push_back(state);
  }
  return kept;
}

}  // namespace

std::optional<std::vector<size_t>> ChooseOptions(std::span<const std::vector<WidthOption>> groups,
                                                 uint64_t budget) {
  const std::vector<uint64_t> fewest = FewestBytes(groups);
  if (fewest[0] > budget) return std::nullopt;
  std::vector<std::vector<State>> stages = {{State{}}};
  for (size_t i = 0; i < groups.size(); ++i) {
    stages.push_back(Extend(stages[i], groups[i], budget - fewest[i + 1]));
  }
  std::vector<size_t> chosen(groups.size());
  size_t at = stages.back().size() - 1;
  for (size_t i = groups.size(); i-- > 0;) {
    const State& state = stages[i + 1][at];
    chosen[i] = state.option;
    at = state.parent;
  }
  return chosen;
}

std::vector<double> NeverRising(std::span<const double> values) {
  struct Block {
    double sum = 0;
    size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Block> blocks;
  for (const double value : values) {
    blocks.push_back({value, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() < blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().count += last.count;
    }
  }
  std::vector<double> result;
  for (const Block& block : blocks) result.insert(result.end(), block.count, block.mean());
  return result;
}

}  // namespace needle::calibrate
