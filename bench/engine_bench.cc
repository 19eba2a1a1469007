// The engine on models of the shipped sizes with random weights: a token at several positions, a
// prompt, loading. The argument `threads` is the session's.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/random_values.h"
#include "benchmark/benchmark.h"
#include "engine/archive_weights.h"
#include "engine/kv_cache.h"
#include "engine/model.h"
#include "engine/session.h"
#include "engine/tokenizer.h"
#include "tests/support/random_archive.h"

namespace needle::bench {
namespace {

using engine::ArchiveWeights;
using engine::Model;
using engine::Numerics;
using engine::Session;

const std::vector<uint8_t>& ArchiveBytes(int generation) {
  static const std::vector<uint8_t> needle2 = tests::RandomArchive(tests::ShippedNeedle2());
  static const std::vector<uint8_t> needle3 = tests::RandomArchive(tests::ShippedNeedle3());
  return generation == 2 ? needle2 : needle3;
}

Model LoadModel(int generation, Numerics numerics, size_t threads) {
  auto archive = format::Archive::FromBytes(ArchiveBytes(generation), "random.cact");
  return *Model::Load(std::make_shared<const ArchiveWeights>(*std::move(archive)),
                      {.numerics = numerics, .threads = threads});
}

// An archive on disk as long as this lives.
class ArchiveFile {
 public:
  explicit ArchiveFile(int generation) {
    const std::vector<uint8_t>& bytes = ArchiveBytes(generation);
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  ~ArchiveFile() { std::remove(path_.c_str()); }
  ArchiveFile(const ArchiveFile&) = delete;
  ArchiveFile& operator=(const ArchiveFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/needle_engine_bench." + std::to_string(getpid());
};

std::vector<uint32_t> Tokens(size_t count) {
  std::vector<uint32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = static_cast<uint32_t>(300 + i * 7919 % 7000);
  return tokens;
}

void BM_Decode(benchmark::State& state) {
  const Model model = LoadModel(static_cast<int>(state.range(0)), Numerics::kKernel,
                                static_cast<size_t>(state.range(1)));
  const auto position = static_cast<size_t>(state.range(2));
  Session session(model);
  const std::vector<uint32_t> prompt = Tokens(position);
  for (auto _ : state) {
    // Stay within ten tokens of the wanted position.
    if (session.position() == 0 || session.position() >= position + 10) {
      state.PauseTiming();
      session.Reset();
      benchmark::DoNotOptimize(session.Prefill(prompt, Session::Logits::kNone));
      state.ResumeTiming();
    }
    benchmark::DoNotOptimize(session.Step(500));
  }
}
BENCHMARK(BM_Decode)
    ->ArgNames({"needle", "threads", "position"})
    ->Args({3, 1, 60})
    ->Args({3, 1, 200})
    ->Args({3, 2, 60})
    ->Args({3, 2, 200})
    ->Args({2, 1, 200})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void BM_Prefill(benchmark::State& state) {
  const Model model = LoadModel(static_cast<int>(state.range(0)), Numerics::kKernel,
                                static_cast<size_t>(state.range(1)));
  const std::vector<uint32_t> prompt = Tokens(256);
  Session session(model);
  for (auto _ : state) {
    session.Reset();
    benchmark::DoNotOptimize(session.Prefill(prompt, Session::Logits::kLast));
  }
  state.counters["us/token"] = benchmark::Counter(
      256e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Prefill)
    ->ArgNames({"needle", "threads"})
    ->Args({3, 1})
    ->Args({3, 2})
    ->Args({2, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// A file to a model that is ready, the page cache being warm.
void BM_Load(benchmark::State& state) {
  const ArchiveFile file(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    auto source = ArchiveWeights::Open(file.path());
    const Model model = *Model::Load(*source, {.numerics = Numerics::kKernel, .threads = 1});
    const Session session(model);
    benchmark::DoNotOptimize(session.position());
  }
}
BENCHMARK(BM_Load)->ArgName("needle")->Arg(3)->Arg(2)->Unit(benchmark::kMillisecond);

void BM_OpenArchive(benchmark::State& state) {
  const ArchiveFile file(3);
  for (auto _ : state) benchmark::DoNotOptimize(ArchiveWeights::Open(file.path()));
}
BENCHMARK(BM_OpenArchive)->Unit(benchmark::kMillisecond);

void BM_LoadTokenizer(benchmark::State& state) {
  auto archive = format::Archive::FromBytes(ArchiveBytes(3), "random.cact");
  const ArchiveWeights source(*std::move(archive));
  for (auto _ : state) benchmark::DoNotOptimize(engine::Tokenizer::FromSource(source));
}
BENCHMARK(BM_LoadTokenizer)->Unit(benchmark::kMillisecond);

// A megabyte of words and markers, and one of a single letter, the worst case of merging.
void BM_EncodeText(benchmark::State& state) {
  const engine::Tokenizer tokenizer(tests::RandomTokenizer(format::Generation::kNeedle3, 8192));
  std::string text;
  while (text.size() < (1 << 20)) {
    text += state.range(0) == 0 ? "turn on the attic light <tool_call> " : "aaaaaaaaaaaaaaaa";
  }
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.Encode(text));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(text.size()));
}
BENCHMARK(BM_EncodeText)->ArgName("letters")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// One kv head of the shipped Needle 3 with its six query heads, over `positions`.
void BM_Attend(benchmark::State& state) {
  constexpr size_t kHeads = 6;
  const auto positions = static_cast<size_t>(state.range(1));
  const engine::KvShape shape = {
      .storage = static_cast<engine::KvStorage>(state.range(0)),
      .qk_dim = 48,
      .v_dim = 64,
      .max_positions = positions,
      .kv_bits = 4,
  };
  engine::KvHead cache(shape);
  engine::AttendScratch scratch;
  cache.Reserve(positions);
  cache.Prepare(kHeads, scratch);
  const std::vector<float> k = Gaussian(shape.qk_dim, 1);
  const std::vector<float> v = Gaussian(shape.v_dim, 1);
  for (size_t p = 0; p < positions; ++p) benchmark::DoNotOptimize(cache.Append(p, k, v));
  const std::vector<float> q = Gaussian(kHeads * shape.qk_dim, 1);
  std::vector<float> out(kHeads * shape.v_dim);
  for (auto _ : state) {
    cache.Attend(q.data(), kHeads, 0, positions - 1, scratch, out.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_Attend)
    ->ArgNames({"storage", "positions"})
    ->ArgsProduct({{static_cast<int>(engine::KvStorage::kF32),
                    static_cast<int>(engine::KvStorage::kInt8),
                    static_cast<int>(engine::KvStorage::kCq)},
                   {64, 1024, 8192}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace needle::bench
