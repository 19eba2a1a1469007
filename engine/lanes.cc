#include "engine/lanes.h"

#include <algorithm>
#include <array>

#include "engine/vector_ops.h"

namespace needle::engine {
namespace {

constexpr int kSinkhornRounds = 20;
constexpr float kOffset = 4.0F;  // the bias of hpre and hpost towards a layer's own lane

// Divides `count` values that lie `stride` apart by their sum.
void NormalizeSum(float* values, size_t count, size_t stride) {
  float sum = 0;
  for (size_t i = 0; i < count; ++i) sum += values[i * stride];
  for (size_t i = 0; i < count; ++i) values[i * stride] /= sum;
}

void SubtractMax(float* values, size_t count, size_t stride) {
  float largest = values[0];
  for (size_t i = 1; i < count; ++i) largest = std::max(largest, values[i * stride]);
  for (size_t i = 0; i < count; ++i) values[i * stride] -= largest;
}

}  // namespace

void Sinkhorn(std::span<float> matrix, size_t n) {
  for (size_t r = 0; r < n; ++r) SubtractMax(&matrix[r * n], n, 1);
  for (size_t c = 0; c < n; ++c) SubtractMax(&matrix[c], n, n);
  Ops().exp(matrix.data(), n * n, 0.0F);
  for (int round = 0; round < kSinkhornRounds; ++round) {
    for (size_t r = 0; r < n; ++r) NormalizeSum(&matrix[r * n], n, 1);
    for (size_t c = 0; c < n; ++c) NormalizeSum(&matrix[c], n, n);
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
  float* scratch = &next_[Row(t, 0)];  // free until Write
  for (size_t lane = 0; lane < lanes_; ++lane) {
    const float offset_pre = lane == own ? kOffset : -kOffset;
    const float offset_post = lane == own ? 0.0F : -kOffset;
    const size_t at = layer * lanes_ + lane;
    h_pre_[t * lanes_ + lane] = Sigmoid(w.a_pre[layer] * pre[lane] + w.b_pre[at] + offset_pre);
    mix[lane * (lanes_ + 1) + lanes_] =
        2.0F * Sigmoid(w.a_post[layer] * post[lane] + w.b_post[at] + offset_post);
  }
  for (size_t i = 0; i < square; ++i) {
    scratch[i] = w.a_res[layer] * res[i] + w.b_res[layer * square + i];
  }
  Sinkhorn({scratch, square}, lanes_);
  for (size_t r = 0; r < lanes_; ++r) {
    std::copy_n(scratch + r * lanes_, lanes_, mix + r * (lanes_ + 1));
  }
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
  return floats * sizeof(float);
}

}  // namespace needle::engine
