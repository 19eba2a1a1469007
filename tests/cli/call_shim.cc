// Preloaded into the program under test: the NEEDLE_SHIM_COUNT-th call of NEEDLE_SHIM_FUNCTION
// raises NEEDLE_SHIM_SIGNAL or fails with NEEDLE_SHIM_ERROR. So a test hits a known moment of the
// work without any waiting.
#include <dlfcn.h>
#include <signal.h>
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
  if (calls.fetch_add(1) + 1 != Number("NEEDLE_SHIM_COUNT")) return false;
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

}  // extern "C"
