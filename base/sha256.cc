#include "base/sha256.h"

#include <openssl/sha.h>

#include <array>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace needle::base {

std::string Sha256Hex(std::span<const uint8_t> bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(bytes.data(), bytes.size(), digest.data());
  std::string raw(digest.begin(), digest.end());
  return absl::BytesToHexString(raw);
}

}  // namespace needle::base
