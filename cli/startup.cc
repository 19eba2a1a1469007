// Makes the program start sooner.
#include <cstdint>

namespace hwy::platform {

// Highway 1.0's shared library calibrates a timer when it is loaded, 5 ms of every start, through a
// symbol that the program may replace. Nothing here measures time with Highway.
uint64_t TimerResolution() { return 1; }

}  // namespace hwy::platform
