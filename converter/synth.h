// converter/synth.h: random checkpoints of full size, for benchmarks and demonstrations.
#ifndef NEEDLE_CONVERTER_SYNTH_H_
#define NEEDLE_CONVERTER_SYNTH_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "format/geometry.h"

namespace needle::converter {

struct SynthOptions {
  // The config of the checkpoint, as a saved one; ShippedConfig gives those of the shipped models.
  base::Json config;
  uint64_t seed = 1;
  size_t threads = 0;  // 0: one per processor. Never shows in the bytes
};

struct SynthReport {
  uint64_t file_bytes = 0;
  uint64_t num_leaves = 0;
  uint64_t num_values = 0;
};

// The config of the shipped Needle 2 or Needle 3 model, by the header values of the specification.
base::Json ShippedConfig(format::Generation generation);

// Writes a .safetensors checkpoint with F32 leaves, format version 2: the leaves that a build of
// that config needs (Needle 3: with a confidence head; Needle 2: with both heads). Values look like
// a trained model's: matrices near Gaussian with a scale a channel, norm gains near 0. The same
// options give the same bytes. InvalidArgument: the config is none; errors as of AtomicFile.
absl::StatusOr<SynthReport> WriteSyntheticCheckpoint(const SynthOptions& options,
                                                     const std::string& target);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_SYNTH_H_
