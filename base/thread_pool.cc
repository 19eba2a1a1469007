#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace needle::base {
namespace {

using Body = std::function<void(size_t, size_t, size_t)>;

// How often a thread looks again before it sleeps: some tens of microseconds, longer than the gap
// between two loops of one decoding step and short enough not to be felt when idle.
constexpr int kSpins = 4000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` differs from `old`, first spinning, then asleep.
uint32_t WaitForChange(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    const uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    Pause();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

size_t ResolveThreads(size_t requested) {
  if (requested > 0) return requested;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    return static_cast<size_t>(std::max(1, CPU_COUNT(&allowed)));
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

// A loop is published as a ticket: its epoch in the high half, the next chunk in the low half. A
// thread owns a chunk once it has moved the ticket on, which fails when the loop has been closed or
// replaced meanwhile; so a late thread never touches a loop that is over, and nobody waits for a
// thread that is still asleep.
struct ThreadPool::State {
  static constexpr uint64_t kClosed = 0xFFFFFFFF;

  std::vector<std::jthread> threads;
  std::atomic<uint32_t> epoch = 0;
  std::atomic<uint64_t> ticket = kClosed;
  std::atomic<uint64_t> num_chunks = 0;
  std::atomic<size_t> count = 0;
  std::atomic<size_t> grain = 1;
  std::atomic<const Body*> body = nullptr;
  std::atomic<uint32_t> done = 0;
  std::atomic<bool> stop = false;

  void Work(uint32_t my_epoch, size_t worker) {
    for (;;) {
      uint64_t now = ticket.load(std::memory_order_acquire);
      const uint64_t chunk = now & kClosed;
      if ((now >> 32) != my_epoch || chunk >= num_chunks.load()) return;
      const Body* run = body.load();
      const size_t begin = chunk * grain.load();
      const size_t end = std::min(count.load(), begin + grain.load());
      if (!ticket.compare_exchange_strong(now, now + 1, std::memory_order_acq_rel)) continue;
      (*run)(begin, end, worker);
      done.fetch_add(1, std::memory_order_acq_rel);
      done.notify_one();
    }
  }

  void Loop(size_t worker) {
    uint32_t seen = 0;
    while (true) {
      seen = WaitForChange(epoch, seen);
      if (stop.load()) return;
      Work(seen, worker);
    }
  }
};

ThreadPool::ThreadPool(size_t num_threads) : state_(std::make_unique<State>()) {
  for (size_t worker = 1; worker < num_threads; ++worker) {
    state_->threads.emplace_back([state = state_.get(), worker] { state->Loop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->epoch.fetch_add(1);
  state_->epoch.notify_all();
  state_->threads.clear();
}

size_t ThreadPool::num_threads() const { return state_->threads.size() + 1; }

void ThreadPool::ParallelFor(size_t count, size_t grain, const Body& body) {
  if (count == 0) return;
  grain = std::max<size_t>(grain, 1);
  // Chunk numbers share 64 bits with the epoch.
  while ((count - 1) / grain + 1 >= State::kClosed) grain *= 2;
  const auto chunks = static_cast<uint32_t>((count - 1) / grain + 1);
  if (chunks == 1 || state_->threads.empty()) {
    for (size_t begin = 0; begin < count; begin += grain)
      body(begin, std::min(count, begin + grain), 0);
    return;
  }
  State& state = *state_;
  state.num_chunks.store(chunks);
  state.count.store(count);
  state.grain.store(grain);
  state.body.store(&body);
  state.done.store(0);
  const uint32_t epoch = state.epoch.load() + 1;
  state.ticket.store(static_cast<uint64_t>(epoch) << 32, std::memory_order_release);
  state.epoch.store(epoch, std::memory_order_release);
  state.epoch.notify_all();
  state.Work(epoch, 0);
  for (uint32_t done = state.done.load(); done != chunks; done = WaitForChange(state.done, done)) {
  }
  state.ticket.store(static_cast<uint64_t>(epoch) << 32 | State::kClosed,
                     std::memory_order_release);
}

}  // namespace needle::base
