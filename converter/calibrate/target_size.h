// converter/calibrate/target_size.h: sizes as people write them.
#ifndef NEEDLE_CONVERTER_CALIBRATE_TARGET_SIZE_H_
#define NEEDLE_CONVERTER_CALIBRATE_TARGET_SIZE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace needle::calibrate {

// Bytes: "720896", "700K", "1.5M", "700KiB", "700kB". As in dd: K, M and G are powers of 1024, so
// are KiB, MiB and GiB; kB (or KB), MB and GB are powers of 1000. A fraction of a byte is dropped.
// InvalidArgument: anything else, zero, or 2^53 bytes and more.
absl::StatusOr<uint64_t> ParseTargetSize(std::string_view text);

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_TARGET_SIZE_H_
