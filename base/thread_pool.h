// base/thread_pool.h: loops split over threads without showing in the result.
#ifndef NEEDLE_BASE_THREAD_POOL_H_
#define NEEDLE_BASE_THREAD_POOL_H_

#include <cstddef>
#include <functional>
#include <memory>

namespace needle::base {

// The number of threads for a user's `--threads`: 0 means one per processor that this process may
// use.
size_t ResolveThreads(size_t requested);

// A fixed set of threads; the calling thread is one of them, so a pool of one starts none.
class ThreadPool {
 public:
  explicit ThreadPool(size_t num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t num_threads() const;

  // Calls body(begin, end, worker) for ranges that cover [0, count) once, each at most `grain` long
  // (at least 1) and starting at a multiple of it; worker < num_threads(). Ranges are handed out as
  // threads get free, so `body` must not depend on which worker or in which order. Returns when all
  // are done. Not reentrant; one caller at a time.
  void ParallelFor(size_t count, size_t grain,
                   const std::function<void(size_t begin, size_t end, size_t worker)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace needle::base

#endif  // NEEDLE_BASE_THREAD_POOL_H_
