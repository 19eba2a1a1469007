#include "engine/kv_cache.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/half.h"
#include "base/status_macros.h"
#include "engine/vector_ops.h"
#include "quant/encode.h"
#include "quant/pack.h"
#include "quant/rotate.h"

namespace needle::engine {
namespace {

// Slots of a ring at first: all of a usual window at once, which is less than what growing to it
// would leave behind.
constexpr size_t kFirstCapacity = 320;

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// x = ints * scale by the specification's Q; ints lie `stride` apart.
float QuantizeVector(std::span<const float> x, int8_t* ints, size_t stride) {
  const float largest = Ops().max_abs(x.data(), x.size());
  const float scale = largest == 0.0F ? 1.0F : largest / 127.0F;
  std::array<float, 64> rounded;
  for (size_t begin = 0; begin < x.size(); begin += rounded.size()) {
    const size_t count = std::min(rounded.size(), x.size() - begin);
    Ops().quantize(&x[begin], scale, rounded.data(), count);
    for (size_t i = 0; i < count; ++i) {
      ints[(begin + i) * stride] = static_cast<int8_t>(rounded[i]);
    }
  }
  return scale;
}

}  // namespace

KvCodec::KvCodec(uint32_t kv_bits, size_t dim)
    : codebook_(*quant::Codebook::Make(static_cast<format::Width>(kv_bits), kGroup,
                                       quant::StoredCodebooks(quant::CodebookKind::kReference))),
      dim_(dim) {}

absl::Status KvCodec::Encode(std::span<const float> values, std::span<uint8_t> indices,
                             std::span<uint16_t> norms) const {
  return quant::EncodeRows(values, dim_, 0, codebook_, indices, norms).status();
}

void KvCodec::DecodeRotated(std::span<const uint8_t> indices, std::span<const uint16_t> norms,
                            float* rotated, size_t stride) const {
  std::array<uint8_t, kGroup> codes;
  const size_t bytes = index_bytes() / groups();
  for (size_t g = 0; g < groups(); ++g) {
    quant::UnpackRow(width(), indices.subspan(g * bytes, bytes), codes);
    const float norm = base::F32FromF16(norms[g]);
    for (size_t i = 0; i < kGroup; ++i) {
      rotated[(g * kGroup + i) * stride] = codebook_.entries()[codes[i]] * norm;
    }
  }
}

absl::Status KvCodec::RoundTrip(std::span<float> values) const {
  std::vector<uint8_t> indices(index_bytes());
  std::vector<uint16_t> norms(groups());
  RETURN_IF_ERROR(Encode(values, indices, norms));
  std::vector<float> rotated(padded_dim());
  DecodeRotated(indices, norms, rotated.data(), 1);
  quant::Rotate(rotated, kGroup);
  std::copy_n(rotated.begin(), dim_, values.begin());
  return absl::OkStatus();
}

KvHead::KvHead(const KvShape& shape) : shape_(shape) {
  shape_.max_positions = RoundUp(shape.max_positions, kTile);
  if (shape.storage != KvStorage::kCq) return;
  k_codec_.emplace(shape.kv_bits, shape.qk_dim);
  v_codec_.emplace(shape.kv_bits, shape.v_dim);
}

void KvHead::Reserve(size_t end) {
  if (end <= capacity_ || capacity_ == shape_.max_positions) return;
  // Nothing has wrapped around before the ring has its full size, so slots keep their places.
  const size_t wanted = std::max({RoundUp(end, kTile), 2 * capacity_, kFirstCapacity});
  capacity_ = std::min(wanted, shape_.max_positions);
  switch (shape_.storage) {
    case KvStorage::kF32:
      k_f32_.resize(capacity_ * shape_.qk_dim);
      v_f32_.resize(capacity_ * shape_.v_dim);
      break;
    case KvStorage::kInt8:
      k_i8_.resize(capacity_ * shape_.qk_dim);
      v_i8_.resize(capacity_ * shape_.v_dim);
      k_scale_.resize(capacity_);
      v_scale_.resize(capacity_);
      break;
    case KvStorage::kCq:
      k_index_.resize(capacity_ * k_codec_->index_bytes());
      v_index_.resize(capacity_ * v_codec_->index_bytes());
      k_norm_.resize(capacity_ * k_codec_->groups());
      v_norm_.resize(capacity_ * v_codec_->groups());
      break;
  }
}

size_t KvHead::MemoryBytes() const {
  return (k_f32_.size() + v_f32_.size() + k_scale_.size() + v_scale_.size()) * sizeof(float) +
         k_i8_.size() + v_i8_.size() + k_index_.size() + v_index_.size() +
         (k_norm_.size() + v_norm_.size()) * sizeof(uint16_t);
}

absl::Status KvHead::Append(size_t position, std::span<const float> k, std::span<const float> v) {
  const size_t slot = position % capacity_;
  const size_t in_tiles = slot / kTile * kTile * shape_.qk_dim + slot % kTile;
  switch (shape_.storage) {
    case KvStorage::kF32:
      for (size_t i = 0; i < k.size(); ++i) k_f32_[in_tiles + i * kTile] = k[i];
      std::copy(v.begin(), v.end(), &v_f32_[slot * shape_.v_dim]);
      return absl::OkStatus();
    case KvStorage::kInt8:
      k_scale_[slot] = QuantizeVector(k, &k_i8_[in_tiles], kTile);
      v_scale_[slot] = QuantizeVector(v, &v_i8_[slot * shape_.v_dim], 1);
      return absl::OkStatus();
    case KvStorage::kCq: {
      const auto part = [slot](auto& all, size_t size) {
        return std::span(all).subspan(slot * size, size);
      };
      RETURN_IF_ERROR(k_codec_->Encode(k, part(k_index_, k_codec_->index_bytes()),
                                       part(k_norm_, k_codec_->groups())));
      return v_codec_->Encode(v, part(v_index_, v_codec_->index_bytes()),
                              part(v_norm_, v_codec_->groups()));
    }
  }
  return absl::OkStatus();
}

void KvHead::Prepare(size_t heads, AttendScratch& scratch) const {
  // Visible positions begin and end inside tiles.
  const size_t scores = heads * (capacity_ + kTile);
  if (scratch.scores.size() < scores) scratch.scores.resize(scores);
  if (shape_.storage != KvStorage::kCq) return;
  scratch.queries.resize(heads * k_codec_->padded_dim());
  scratch.values.resize(heads * v_codec_->padded_dim());
  scratch.tile.resize(kTile * std::max(k_codec_->padded_dim(), v_codec_->padded_dim()));
}

void KvHead::Attend(const float* q, size_t heads, size_t first, size_t last, AttendScratch& scratch,
                    float* out) const {
  const VectorOps& ops = Ops();
  const size_t skipped = first % kTile;  // positions of the first tile that are not visible
  const size_t visible = last + 1 - first;
  const size_t stride = RoundUp(skipped + visible, kTile);
  Scores(q, heads, first, last, stride, scratch);
  const float root = std::sqrt(static_cast<float>(shape_.qk_dim));
  for (size_t h = 0; h < heads; ++h) {
    float* row = &scratch.scores[h * stride + skipped];
    ops.scale(row, 1.0F / root, row, visible);
    ops.exp(row, visible, ops.max(row, visible));
    ops.scale(row, 1.0F / ops.sum(row, visible), row, visible);
  }
  WeightedValues(heads, first, last, stride, scratch, out);
}

void KvHead::Scores(const float* q, size_t heads, size_t first, size_t last, size_t stride,
                    AttendScratch& scratch) const {
  const VectorOps& ops = Ops();
  size_t dim = shape_.qk_dim;
  if (shape_.storage == KvStorage::kCq) {
    // In the rotated domain, so that keys need not be rotated back: H is orthogonal.
    const size_t padded = k_codec_->padded_dim();
    std::fill(scratch.queries.begin(), scratch.queries.end(), 0.0F);
    for (size_t h = 0; h < heads; ++h) {
      std::copy_n(q + h * dim, dim, &scratch.queries[h * padded]);
    }
    quant::Rotate(scratch.queries, KvCodec::kGroup);
    q = scratch.queries.data();
    dim = padded;
  }
  float* scores = scratch.scores.data();
  for (size_t tile = first / kTile * kTile; tile <= last; tile += kTile, scores += kTile) {
    const size_t slot = tile % capacity_;
    switch (shape_.storage) {
      case KvStorage::kF32:
        ops.small_product(q, dim, &k_f32_[slot * dim], kTile, heads, dim, kTile, false, scores,
                          stride);
        break;
      case KvStorage::kInt8:
        ops.small_product_i8(q, dim, &k_i8_[slot * dim], kTile, heads, dim, kTile, false, scores,
                             stride);
        for (size_t h = 0; h < heads; ++h) {
          ops.product(&k_scale_[slot], scores + h * stride, scores + h * stride, kTile);
        }
        break;
      case KvStorage::kCq: {
        const size_t bytes = k_codec_->index_bytes();
        const size_t groups = k_codec_->groups();
        for (size_t i = 0; i < kTile; ++i) {
          k_codec_->DecodeRotated(std::span(k_index_).subspan((slot + i) * bytes, bytes),
                                  std::span(k_norm_).subspan((slot + i) * groups, groups),
                                  &scratch.tile[i], kTile);
        }
        ops.small_product(q, dim, scratch.tile.data(), kTile, heads, dim, kTile, false, scores,
                          stride);
        break;
      }
    }
  }
}

void KvHead::WeightedValues(size_t heads, size_t first, size_t last, size_t stride,
                            AttendScratch& scratch, float* out) const {
  float* const sums = shape_.storage == KvStorage::kCq ? scratch.values.data() : out;
  const size_t skipped = first % kTile;
  for (size_t p = first; p <= last;) {
    const size_t slot = p % capacity_;
    size_t run = std::min(last + 1 - p, capacity_ - slot);
    if (shape_.storage == KvStorage::kCq) run = std::min(run, kTile);
    AddValues(slot, run, &scratch.scores[p - first + skipped], heads, stride, p != first, scratch,
              sums);
    p += run;
  }
  if (shape_.storage != KvStorage::kCq) return;
  quant::Rotate(scratch.values, KvCodec::kGroup);
  for (size_t h = 0; h < heads; ++h) {
    std::copy_n(&scratch.values[h * v_codec_->padded_dim()], shape_.v_dim, out + h * shape_.v_dim);
  }
}

void KvHead::AddValues(size_t slot, size_t run, float* weights, size_t heads, size_t stride,
                       bool accumulate, AttendScratch& scratch, float* out) const {
  const VectorOps& ops = Ops();
  const size_t dim = shape_.v_dim;
  switch (shape_.storage) {
    case KvStorage::kF32:
      ops.small_product(weights, stride, &v_f32_[slot * dim], dim, heads, run, dim, accumulate, out,
                        dim);
      return;
    case KvStorage::kInt8:
      for (size_t h = 0; h < heads; ++h) {
        ops.product(&v_scale_[slot], weights + h * stride, weights + h * stride, run);
      }
      ops.small_product_i8(weights, stride, &v_i8_[slot * dim], dim, heads, run, dim, accumulate,
                           out, dim);
      return;
    case KvStorage::kCq: {
      const size_t padded = v_codec_->padded_dim();
      const size_t bytes = v_codec_->index_bytes();
      const size_t groups = v_codec_->groups();
      for (size_t i = 0; i < run; ++i) {
        v_codec_->DecodeRotated(std::span(v_index_).subspan((slot + i) * bytes, bytes),
                                std::span(v_norm_).subspan((slot + i) * groups, groups),
                                &scratch.tile[i * padded], 1);
      }
      ops.small_product(weights, stride, scratch.tile.data(), padded, heads, run, padded,
                        accumulate, out, padded);
      return;
    }
  }
}

}  // namespace needle::engine
