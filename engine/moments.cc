#include "engine/moments.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "engine/vector_ops.h"

namespace needle::engine {
namespace {

constexpr size_t kBlock = 128;  // positions
constexpr size_t kTile = 64;    // rows and columns of the sum

// Positions [first, first + kBlock) of x [count, n] in tiles of kTile values, zeros where there are
// none.
struct Packed {
  std::vector<float> rows;     // [block, tile, kTile, kBlock]: weight * x
  std::vector<float> columns;  // [block, tile, kBlock, kTile]: x
};

size_t NumTiles(size_t n) { return (n + kTile - 1) / kTile; }

// Where value i of position t lies, as a row and as a column.
size_t RowPlace(size_t n, size_t t, size_t i) {
  return ((t / kBlock * NumTiles(n) + i / kTile) * kTile + i % kTile) * kBlock + t % kBlock;
}
size_t ColumnPlace(size_t n, size_t t, size_t i) {
  return ((t / kBlock * NumTiles(n) + i / kTile) * kBlock + t % kBlock) * kTile + i % kTile;
}

Packed Pack(std::span<const float> a, std::span<const float> b, std::span<const float> weights,
            size_t n, base::ThreadPool& pool) {
  const size_t blocks = (weights.size() + kBlock - 1) / kBlock;
  Packed packed;
  packed.rows.resize(blocks * NumTiles(n) * kTile * kBlock);
  packed.columns.resize(packed.rows.size());
  const auto body = [&](size_t begin, size_t end, size_t) {
    for (size_t t = begin; t < end; ++t) {
      for (size_t i = 0; i < n; ++i) {
        packed.rows[RowPlace(n, t, i)] = weights[t] * a[t * n + i];
        packed.columns[ColumnPlace(n, t, i)] = b[t * n + i];
      }
    }
  };
  pool.ParallelFor(weights.size(), kBlock, std::ref(body));
  return packed;
}

}  // namespace

void MomentSum::Add(std::span<const float> a, std::span<const float> b,
                    std::span<const float> weights, base::ThreadPool& pool) {
  const size_t n = sum_.cols();
  const size_t tiles = NumTiles(n);
  const size_t blocks = (weights.size() + kBlock - 1) / kBlock;
  const Packed packed = Pack(a, b, weights, n, pool);
  const auto body = [&](size_t begin, size_t end, size_t) {
    std::vector<float> tile(kTile * kTile);
    for (size_t task = begin; task < end; ++task) {
      const size_t row = task / tiles;
      const size_t column = task % tiles;
      if (symmetric_ && column < row) continue;
      for (size_t block = 0; block < blocks; ++block) {
        const size_t base = block * tiles * kTile * kBlock;
        Ops().small_product(&packed.rows[base + row * kTile * kBlock], kBlock,
                            &packed.columns[base + column * kTile * kBlock], kTile, kTile, kBlock,
                            kTile, false, tile.data(), kTile);
        for (size_t i = row * kTile; i < std::min((row + 1) * kTile, n); ++i) {
          double* sums = sum_.row(i);
          for (size_t j = column * kTile; j < std::min((column + 1) * kTile, n); ++j) {
            sums[j] += static_cast<double>(tile[i % kTile * kTile + j % kTile]);
          }
        }
      }
    }
  };
  pool.ParallelFor(tiles * tiles, 1, std::ref(body));
}

quant::DenseMatrix MomentSum::Take() && {
  // Tiles on the diagonal are whole, but their two halves are rounded apart.
  for (size_t i = 0; symmetric_ && i < sum_.rows(); ++i) {
    for (size_t j = 0; j < i; ++j) sum_.at(i, j) = sum_.at(j, i);
  }
  return std::move(sum_);
}

}  // namespace needle::engine
