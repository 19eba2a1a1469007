#include "base/removal_list.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstring>

namespace needle::base {
namespace {

// What a signal handler may read: storage that never moves.
struct Slot {
  std::atomic<int> state = kFree;
  std::array<char, PATH_MAX> path;
  static constexpr int kFree = 0;
  static constexpr int kFilling = 1;
  static constexpr int kUsed = 2;
};
std::array<Slot, 128> g_slots;

template <typename Remove>
bool RemoveAny(const Remove& remove) {
  bool removed = false;
  for (Slot& slot : g_slots) {
    if (slot.state.load() == Slot::kUsed && remove(slot.path.data()) == 0) removed = true;
  }
  return removed;
}

}  // namespace

void RememberForRemoval(const std::string& path) {
  for (Slot& slot : g_slots) {
    int expected = Slot::kFree;
    if (path.size() >= slot.path.size()) return;
    if (!slot.state.compare_exchange_strong(expected, Slot::kFilling)) continue;
    std::memcpy(slot.path.data(), path.c_str(), path.size() + 1);
    slot.state.store(Slot::kUsed);
    return;
  }
}

void ForgetForRemoval(const std::string& path) {
  for (Slot& slot : g_slots) {
    if (slot.state.load() == Slot::kUsed && path == slot.path.data()) {
      slot.state.store(Slot::kFree);
      return;
    }
  }
}

void RemoveRemembered() noexcept {
  RemoveAny([](const char* path) { return unlink(path); });
  // A folder within another one goes first, wherever it is listed.
  while (RemoveAny([](const char* path) { return rmdir(path); })) {
  }
}

}  // namespace needle::base
