// converter/tokenizer_source.h: the tokenizer attachment of a new archive. Specification:
// "Tokenizer of a new archive".
#ifndef NEEDLE_CONVERTER_TOKENIZER_SOURCE_H_
#define NEEDLE_CONVERTER_TOKENIZER_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/geometry.h"
#include "format/tokenizer_table.h"

namespace needle::converter {

// The table of a SentencePiece BPE model. DataLoss: not a model. Unimplemented: a model that the
// attachment cannot express, with the reason by name. Messages start with the path.
absl::StatusOr<format::TokenizerTable> ReadSentencePiece(const std::string& path,
                                                         format::Generation generation);

// The attachment's bytes from `path`: another archive's (".cact", byte for byte) or a SentencePiece
// model's. NotFound: no such file, or the archive has no attachment. DataLoss: more pieces than
// `vocab`.
absl::StatusOr<std::vector<uint8_t>> LoadTokenizer(const std::string& path,
                                                   format::Generation generation, uint32_t vocab);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_TOKENIZER_SOURCE_H_
