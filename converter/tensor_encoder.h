// converter/tensor_encoder.h: who chooses indices and norms. Specification: "Encoding one group",
// "Better choices inside the same format".
#ifndef NEEDLE_CONVERTER_TENSOR_ENCODER_H_
#define NEEDLE_CONVERTER_TENSOR_ENCODER_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "quant/codebook.h"
#include "quant/encode.h"

namespace needle::converter {

// Rows to encode, and where to. Views are valid during the call only.
struct EncodeRequest {
  size_t position = 0;  // in the schema
  uint64_t first_row = 0;
  uint64_t num_rows = 0;
  uint64_t cols = 0;
  std::span<const float> weights;  // [num_rows, cols]
  const quant::Codebook* codebook = nullptr;
  std::span<uint8_t> indices;  // num_rows * CqLayout::row_bytes
  std::span<uint16_t> norms;   // num_rows * groups
};

// Called from several threads at once, for different rows. The result may depend on the request
// alone, never on the thread or order.
class TensorEncoder {
 public:
  virtual ~TensorEncoder() = default;
  // True: Encode gets all rows of that tensor in one call.
  virtual bool NeedsWholeTensor(size_t position) const;
  // Errors as of quant::EncodeRows.
  virtual absl::StatusOr<quant::EncodeStats> Encode(const EncodeRequest& request) const = 0;
  // What was done, for the report; asked after the tensor's last row.
  virtual std::string Recipe(size_t position) const = 0;
};

// Round to nearest, the default: quant::EncodeRows.
const TensorEncoder& RoundToNearest();

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_TENSOR_ENCODER_H_
