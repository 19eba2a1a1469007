// base/sha256.h: SHA-256 through libcrypto, for manifests and test data.
#ifndef NEEDLE_BASE_SHA256_H_
#define NEEDLE_BASE_SHA256_H_

#include <cstdint>
#include <span>
#include <string>

namespace needle::base {

// 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::span<const uint8_t> bytes);

}  // namespace needle::base

#endif  // NEEDLE_BASE_SHA256_H_
