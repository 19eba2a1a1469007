#include "engine/lanes.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/vector_ops.h"

namespace needle::engine {
namespace {

constexpr int kSinkhornRounds = 20;
constexpr double kLeastExponent = -700.0;  // e^ of it is still a normal number
constexpr float kOffset = 4.0F;            // the bias of hpre and hpost towards a layer's own lane

// e^x for x in [-700, 0], within 1e-15 of it, with + - * alone: 2^k * e^r as in exp_constants.h.
double ExpF64(double x) {
  constexpr double kLog2EF64 = 1.4426950408889634;
  constexpr double kLn2HighF64 = 6.93147180369123816490e-01;
  constexpr double kLn2LowF64 = 1.90821492927058770002e-10;
  const auto k = static_cast<int64_t>(x * kLog2EF64 - 0.5);
  const auto shift = static_cast<double>(k);
  const double r = (x - shift * kLn2HighF64) - shift * kLn2LowF64;
  double sum = 1.0;
  for (int i = 14; i >= 1; --i) sum = sum * r / i + 1.0;
  return sum * std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52);
}

// Makes `count` values that lie `stride` apart sum to 1.
void NormalizeSum(double* values, size_t count, size_t stride) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += values[i * stride];
  const double factor = 1.0 / sum;
  for (size_t i = 0; i < count; ++i) values[i * stride] *= factor;
}

}  // namespace

void Sinkhorn(std::span<const float> matrix, size_t n, std::span<double> work,
              std::span<float> result, size_t result_stride) {
  for (size_t r = 0; r < n; ++r) {
    const auto row = matrix.subspan(r * n, n);
    const float largest = *std::max_element(row.begin(), row.end());
    for (size_t c = 0; c < n; ++c) {
      const double difference = static_cast<double>(row[c]) - static_cast<double>(largest);
      work[r * n + c] = ExpF64(std::max(difference, kLeastExponent));
    }
  }
  for (int round = 0; round < kSinkhornRounds; ++round) {
    for (size_t r = 0; r < n; ++r) NormalizeSum(&work[r * n], n, 1);
    for (size_t c = 0; c < n; ++c) NormalizeSum(&work[c], n, n);
  }
  for (size_t r = 0; r < n; ++r) {
    for (size_t c = 0; c < n; ++c) {
      result[r * result_stride + c] = static_cast<float>(work[r * n + c]);
    }
  }
}

Lanes::Lanes(const format::Geometry& geometry)
    : d_(geometry.d_model),
      lanes_(geometry.mhc_lanes),
      x_(kChunk * (lanes_ + 1) * d_),
      next_(x_.size()),
      z_(kChunk * lanes_ * d_),
      pre_(kChunk * geometry.num_layers * lanes_),
      post_(pre_.size()),
      res_(pre_.size() * lanes_),
      h_pre_(kChunk * lanes_),
      mix_(kChunk * lanes_ * (lanes_ + 1)),
      sinkhorn_(kChunk * lanes_ * lanes_),
      mean_weights_(lanes_, 1.0F / static_cast<float>(lanes_)) {}

void Lanes::Start(size_t t, std::span<const float> x0) {
  for (size_t lane = 0; lane < lanes_; ++lane) std::copy(x0.begin(), x0.end(), &x_[Row(t, lane)]);
}

void Lanes::Read(Run& run, size_t layer, std::span<float> u) {
  const VectorOps& ops = Ops();
  const size_t width = lanes_ * d_;
  // Needle 2 quantises its inputs everywhere but here.
  const bool quantize =
      run.quantizes_inputs() && run.geometry.generation == format::Generation::kNeedle3;
  run.ForEachPosition([&](size_t t, size_t) {
    const float* x = &x_[Row(t, 0)];
    float* z = &z_[t * width];
    ops.scale(x, InverseRms(x, width), z, width);
    if (quantize) QuantizeInt8(z, width);
  });
  input_.Assign(z_, run.count, width);
  const Weights& w = run.weights;
  const size_t square = lanes_ * lanes_;
  const Product products[] = {
      {&w.phi_pre, layer * lanes_, lanes_, pre_, w.phi_pre.rows()},
      {&w.phi_post, layer * lanes_, lanes_, post_, w.phi_post.rows()},
      {&w.phi_res, layer * square, square, res_, w.phi_res.rows()},
  };
  RunProducts(run.pool, run.observer, input_, products);
  run.ForEachPosition([&](size_t t, size_t) {
    Weigh(run, layer, t);
    ops.small_product(&h_pre_[t * lanes_], lanes_, &x_[Row(t, 0)], d_, 1, lanes_, d_, false,
                      &u[t * d_], d_);
  });
}

void Lanes::Weigh(const Run& run, size_t layer, size_t t) {
  const Weights& w = run.weights;
  const size_t own = layer % lanes_;
  const size_t square = lanes_ * lanes_;
  const float* pre = &pre_[t * w.phi_pre.rows() + layer * lanes_];
  const float* post = &post_[t * w.phi_post.rows() + layer * lanes_];
  const float* res = &res_[t * w.phi_res.rows() + layer * square];
  float* mix = &mix_[t * lanes_ * (lanes_ + 1)];
  for (size_t lane = 0; lane < lanes_; ++lane) {
    const float offset_pre = lane == own ? kOffset : -kOffset;
    const float offset_post = lane == own ? 0.0F : -kOffset;
    const size_t at = layer * lanes_ + lane;
    h_pre_[t * lanes_ + lane] = Sigmoid(w.a_pre[layer] * pre[lane] + w.b_pre[at] + offset_pre);
    mix[lane * (lanes_ + 1) + lanes_] =
        2.0F * Sigmoid(w.a_post[layer] * post[lane] + w.b_post[at] + offset_post);
  }
  float* sums = &next_[Row(t, 0)];  // free until Write
  for (size_t i = 0; i < square; ++i) {
    sums[i] = w.a_res[layer] * res[i] + w.b_res[layer * square + i];
  }
  Sinkhorn({sums, square}, lanes_, std::span(sinkhorn_).subspan(t * square, square),
           std::span(mix_).subspan(t * lanes_ * (lanes_ + 1), lanes_ * (lanes_ + 1)), lanes_ + 1);
}

void Lanes::Write(Run& run) {
  const size_t columns = lanes_ + 1;
  run.ForEachPosition([&](size_t t, size_t) {
    Ops().small_product(&mix_[t * lanes_ * columns], columns, &x_[Row(t, 0)], d_, lanes_, columns,
                        d_, false, &next_[Row(t, 0)], d_);
  });
  std::swap(x_, next_);
}

void Lanes::Mean(size_t t, std::span<float> mean) const {
  Ops().small_product(mean_weights_.data(), lanes_, &x_[Row(t, 0)], d_, 1, lanes_, d_, false,
                      mean.data(), d_);
}

size_t Lanes::MemoryBytes() const {
  const size_t floats = x_.size() + next_.size() + z_.size() + pre_.size() + post_.size() +
                        res_.size() + h_pre_.size() + mix_.size() + mean_weights_.size();
  return floats * sizeof(float) + sinkhorn_.size() * sizeof(double);
}

}  // namespace needle::engine
