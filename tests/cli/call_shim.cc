// Preloaded into the program under test: the NEEDLE_SHIM_COUNT-th call of NEEDLE_SHIM_FUNCTION, or
// every call when that is 0, raises NEEDLE_SHIM_SIGNAL or fails with NEEDLE_SHIM_ERROR. So a test
// hits a known moment of the work without any waiting.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace {

int Number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

// Whether this call of `function` is to fail; errno is set then.
bool Hit(const char* function) {
  static std::atomic<int> calls = 0;
  const char* wanted = std::getenv("NEEDLE_SHIM_FUNCTION");
  if (wanted == nullptr || std::strcmp(wanted, function) != 0) return false;
  const int count = Number("NEEDLE_SHIM_COUNT");
  if (calls.fetch_add(1) + 1 != count && count != 0) return false;
  if (const int signal_number = Number("NEEDLE_SHIM_SIGNAL"); signal_number != 0) {
    raise(signal_number);
    return false;
  }
  errno = Number("NEEDLE_SHIM_ERROR");
  return true;
}

template <typename Function>
Function Next(const char* name) {
  void* symbol = dlsym(RTLD_NEXT, name);
  Function function = nullptr;
  std::memcpy(&function, &symbol, sizeof(function));
  return function;
}

}  // namespace

extern "C" {

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  if (Hit("pwrite")) return -1;
  static const auto next = Next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return next(descriptor, bytes, size, offset);
}

int fsync(int descriptor) {
  if (Hit("fsync")) return -1;
  static const auto next = Next<int (*)(int)>("fsync");
  return next(descriptor);
}

int rename(const char* from, const char* to) {
  if (Hit("rename")) return -1;
  static const auto next = Next<int (*)(const char*, const char*)>("rename");
  return next(from, to);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  if (Hit("pthread_create")) return errno;
  static const auto next =
      Next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return next(thread, attributes, start, argument);
}

void* mmap(void* address, size_t size, int protection, int flags, int descriptor,
           off_t offset) noexcept {
  // Only of files: the allocator's own are not meant.
  if (descriptor >= 0 && Hit("mmap")) return MAP_FAILED;
  static const auto next = Next<void* (*)(void*, size_t, int, int, int, off_t)>("mmap");
  return next(address, size, protection, flags, descriptor, offset);
}

}  // extern "C"
