// engine/tokenizer.h: text to ids and back. Specification: "Tokenizer attachment (RAW)".
#ifndef NEEDLE_ENGINE_TOKENIZER_H_
#define NEEDLE_ENGINE_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/weight_source.h"
#include "format/tokenizer_table.h"

namespace needle::engine {

// Immutable; may be used by any number of threads.
class Tokenizer {
 public:
  explicit Tokenizer(format::TokenizerTable table);
  // The attachment of `source`. NotFound: it has none. DataLoss: it is malformed.
  static absl::StatusOr<Tokenizer> FromSource(const WeightSource& source);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  const format::TokenizerTable& table() const;

  // Any bytes (fewer than 2^32 - 3): those that are not UTF-8 become byte pieces, or unk without
  // byte_fallback. Time is near-linear in the length.
  std::vector<uint32_t> Encode(std::string_view text) const;
  // Valid UTF-8: what is not becomes U+FFFD. Ids past the table are skipped.
  std::string Decode(std::span<const uint32_t> ids) const;

  // The bytes that `id` stands for, with U+2581 as a space; empty for control and unknown pieces
  // and ids past the table. Views live as long as the tokenizer.
  std::string_view Surface(uint32_t id) const;

 private:
  struct Index;
  std::unique_ptr<const Index> index_;
};

// Decode piece by piece, for streaming: the concatenation of all returned texts is Decode of all
// ids.
class StreamDecoder {
 public:
  // `tokenizer` must outlive this.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // The text that `id` completes; characters that may still be continued are held back.
  std::string Push(uint32_t id);
  // What is still held back (U+FFFD for each cut character); the decoder starts anew.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;  // bytes not yet returned
  bool at_start_ = true;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_TOKENIZER_H_
