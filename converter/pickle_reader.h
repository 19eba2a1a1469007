// converter/pickle_reader.h: an interpreter of pickles that runs no code. It knows the opcodes of
// protocols 2 to 5 and the few constructors of NumPy arrays. Specification: "Full-precision
// checkpoints", Files.
#ifndef NEEDLE_CONVERTER_PICKLE_READER_H_
#define NEEDLE_CONVERTER_PICKLE_READER_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "converter/pickle_value.h"

namespace needle::converter {

struct Pickle {
  PickleHeap heap;
  PickleRef root = 0;
};

// Reads a whole stream. Values refer to `stream`, which must outlive the result. DataLoss with the
// offset: the stream is damaged, cut short or goes on behind its end. Unimplemented: it asks for a
// global (named) or opcode that no checkpoint needs. Memory is in proportion to the stream.
absl::StatusOr<Pickle> ReadPickle(std::span<const uint8_t> stream);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_PICKLE_READER_H_
