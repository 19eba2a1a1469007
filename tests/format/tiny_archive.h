// tests/format/tiny_archive.h: small valid archives that tests break on purpose.
#ifndef NEEDLE_TESTS_FORMAT_TINY_ARCHIVE_H_
#define NEEDLE_TESTS_FORMAT_TINY_ARCHIVE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "format/archive.h"
#include "format/tokenizer_table.h"

namespace needle::format {

// Two layers with everything that the generation knows; about 20 KB.
Geometry TinyGeometry(Generation generation);
// Every head of the generation.
std::vector<HeadShape> TinyHeads(Generation generation);
// Six pieces: the four control pieces, "a" and U+2581.
TokenizerTable TinyTokenizer();

// An archive whose CQ tensors take the five widths in turn (heads' 4 bits): FP16 values count up in
// quarters, indices are one byte repeated, norms are 1, the permutations run backwards, codebooks
// are the specification's.
std::vector<uint8_t> MakeArchive(const Geometry& geometry, const std::vector<HeadShape>& heads,
                                 std::span<const uint8_t> tokenizer);

// TinyGeometry with TinyHeads and TinyTokenizer.
std::vector<uint8_t> MakeTinyArchive(Generation generation);

// Where things are in the bytes of a valid archive.
size_t HeaderOffset(std::span<const uint8_t> archive, std::string_view field);
size_t RecordOffset(std::span<const uint8_t> archive, std::string_view tensor);
size_t BlobOffset(std::span<const uint8_t> archive, std::string_view tensor);

}  // namespace needle::format

#endif  // NEEDLE_TESTS_FORMAT_TINY_ARCHIVE_H_
