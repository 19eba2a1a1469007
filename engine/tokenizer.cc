#include "engine/tokenizer.h"

#include <algorithm>
#include <array>
#include <queue>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace needle::engine {
namespace {

using format::Piece;
using format::PieceType;
using format::TokenizerTable;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
constexpr uint32_t kNone = 0xFFFFFFFFU;

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  result.reserve(text.size());
  for (size_t begin = 0;;) {
    const size_t found = text.find(from, begin);
    result += text.substr(begin, found - begin);
    if (found == std::string_view::npos) return result;
    result += to;
    begin = found + from.size();
  }
}

// The byte of a piece "<0xHH>"; the table's validation has checked the form.
uint8_t ByteOfPiece(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
  return static_cast<uint8_t>(digit(text[3]) * 16 + digit(text[4]));
}

}  // namespace

struct Tokenizer::Index {
  TokenizerTable table;
  std::vector<std::string> surfaces;                   // by id
  std::unordered_map<std::string_view, uint32_t> ids;  // normal pieces; views into table
  size_t longest_piece = 0;                            // bytes, of the normal ones
  std::array<uint32_t, 256> byte_ids;                  // kNone without a piece
  std::vector<uint32_t> markers;                       // user-defined ids, sorted by text
  std::array<bool, 256> starts_marker = {};

  explicit Index(TokenizerTable from);
  void Add(uint32_t id);
  uint32_t FindPiece(std::string_view text) const;
  uint32_t LongestMarker(std::string_view text) const;
  void EncodePlain(std::string_view text, std::vector<uint32_t>& out) const;
  void EmitSymbol(std::string_view symbol, std::vector<uint32_t>& out) const;
};

Tokenizer::Index::Index(TokenizerTable from) : table(std::move(from)) {
  byte_ids.fill(kNone);
  surfaces.resize(table.pieces.size());
  ids.reserve(table.pieces.size());
  for (uint32_t id = 0; id < table.pieces.size(); ++id) Add(id);
  std::sort(markers.begin(), markers.end(),
            [this](uint32_t a, uint32_t b) { return table.pieces[a].text < table.pieces[b].text; });
}

void Tokenizer::Index::Add(uint32_t id) {
  const Piece& piece = table.pieces[id];
  switch (piece.type) {
    case PieceType::kNormal:
      ids.emplace(piece.text, id);  // of equal texts the first stays
      longest_piece = std::max(longest_piece, piece.text.size());
      surfaces[id] = ReplaceAll(piece.text, kSpaceMark, " ");
      break;
    case PieceType::kUserDefined:
      if (!piece.text.empty()) {
        markers.push_back(id);
        starts_marker[static_cast<uint8_t>(piece.text[0])] = true;
      }
      surfaces[id] = ReplaceAll(piece.text, kSpaceMark, " ");
      break;
    case PieceType::kByte: {
      const uint8_t byte = ByteOfPiece(piece.text);
      byte_ids[byte] = id;
      surfaces[id] = std::string(1, static_cast<char>(byte));
      break;
    }
    case PieceType::kUnknown:
    case PieceType::kControl:
      break;
  }
}

uint32_t Tokenizer::Index::FindPiece(std::string_view text) const {
  if (text.size() > longest_piece) return kNone;
  const auto found = ids.find(text);
  return found == ids.end() ? kNone : found->second;
}

// Narrows the sorted markers byte by byte; the last one that ended on the way is the longest.
uint32_t Tokenizer::Index::LongestMarker(std::string_view text) const {
  if (!starts_marker[static_cast<uint8_t>(text[0])]) return kNone;
  uint32_t longest = kNone;
  auto begin = markers.begin();
  auto end = markers.end();
  for (size_t depth = 0; depth < text.size() && begin != end; ++depth) {
    const auto byte = static_cast<uint8_t>(text[depth]);
    // Texts that end before `depth` sort first; they count as smaller than any byte.
    const auto at = [this, depth](uint32_t id) {
      const std::string& piece = table.pieces[id].text;
      return depth < piece.size() ? static_cast<int>(static_cast<uint8_t>(piece[depth])) : -1;
    };
    begin = std::partition_point(begin, end, [&](uint32_t id) { return at(id) < byte; });
    end = std::partition_point(begin, end, [&](uint32_t id) { return at(id) == byte; });
    if (begin != end && table.pieces[*begin].text.size() == depth + 1) longest = *begin;
  }
  return longest;
}

namespace {

// A run of bytes in a doubly linked list; length 0 once it is merged into its left neighbour.
struct Symbol {
  uint32_t begin;
  uint32_t length;
  uint32_t previous;
  uint32_t next;
};

// Two neighbours that may merge. `length` is what they had together: when it no longer holds, one
// of them has changed since.
struct Candidate {
  float score;
  uint32_t left;
  uint32_t right;
  uint32_t length;
  friend bool operator<(const Candidate& a, const Candidate& b) {  // the largest is taken first
    return a.score < b.score || (a.score == b.score && a.left > b.left);
  }
};

// Code points, and single bytes where the text is not UTF-8.
std::vector<Symbol> SplitSymbols(std::string_view text) {
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  for (size_t begin = 0; begin < text.size();) {
    const base::Utf8Part part = base::NextUtf8(text.substr(begin));
    const size_t length = part.kind == base::Utf8Kind::kValid ? part.length : 1;
    const auto index = static_cast<uint32_t>(symbols.size());
    symbols.push_back(
        {static_cast<uint32_t>(begin), static_cast<uint32_t>(length), index - 1, index + 1});
    begin += length;
  }
  if (!symbols.empty()) symbols.back().next = kNone;  // the first one's previous is 0 - 1 == kNone
  return symbols;
}

}  // namespace

// Byte-pair merging with a heap of candidates: n log n.
void Tokenizer::Index::EncodePlain(std::string_view text, std::vector<uint32_t>& out) const {
  std::vector<Symbol> symbols = SplitSymbols(text);
  std::priority_queue<Candidate> heap;
  const auto consider = [&](uint32_t left, uint32_t right) {
    if (left == kNone || right == kNone) return;
    const uint32_t length = symbols[left].length + symbols[right].length;
    const uint32_t id = FindPiece(text.substr(symbols[left].begin, length));
    if (id != kNone) heap.push({table.pieces[id].score, left, right, length});
  };
  for (uint32_t i = 1; i < symbols.size(); ++i) consider(i - 1, i);
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    Symbol& left = symbols[best.left];
    Symbol& right = symbols[best.right];
    if (left.length == 0 || right.length == 0 || left.length + right.length != best.length)
      continue;
    left.length = best.length;
    left.next = right.next;
    right.length = 0;
    if (left.next != kNone) symbols[left.next].previous = best.left;
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }
  for (uint32_t i = symbols.empty() ? kNone : 0; i != kNone; i = symbols[i].next) {
    EmitSymbol(text.substr(symbols[i].begin, symbols[i].length), out);
  }
}

void Tokenizer::Index::EmitSymbol(std::string_view symbol, std::vector<uint32_t>& out) const {
  const uint32_t id = FindPiece(symbol);
  if (id != kNone) {
    out.push_back(id);
  } else if (!table.byte_fallback) {
    out.push_back(table.unk_id);
  } else {
    for (const char c : symbol) out.push_back(byte_ids[static_cast<uint8_t>(c)]);
  }
}

Tokenizer::Tokenizer(TokenizerTable table)
    : index_(std::make_unique<const Index>(std::move(table))) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

absl::StatusOr<Tokenizer> Tokenizer::FromSource(const WeightSource& source) {
  const std::optional<std::span<const uint8_t>> bytes = source.Tokenizer();
  if (!bytes.has_value()) {
    return absl::NotFoundError(absl::StrCat(source.name(), ": holds no tokenizer"));
  }
  absl::StatusOr<TokenizerTable> table = TokenizerTable::Parse(*bytes, source.geometry().vocab);
  if (!table.ok()) return base::WithContext(table.status(), source.name());
  return Tokenizer(*std::move(table));
}

const TokenizerTable& Tokenizer::table() const { return index_->table; }

std::vector<uint32_t> Tokenizer::Encode(std::string_view text) const {
  std::vector<uint32_t> out;
  if (text.empty()) return out;
  std::string marked = index_->table.add_dummy_prefix ? std::string(kSpaceMark) : std::string();
  marked += ReplaceAll(text, " ", kSpaceMark);
  const std::string_view whole = marked;
  size_t plain_begin = 0;
  size_t place = 0;
  while (place < whole.size()) {
    const uint32_t marker = index_->LongestMarker(whole.substr(place));
    if (marker == kNone) {
      const base::Utf8Part part = base::NextUtf8(whole.substr(place));
      place += part.kind == base::Utf8Kind::kValid ? part.length : 1;
      continue;
    }
    index_->EncodePlain(whole.substr(plain_begin, place - plain_begin), out);
    out.push_back(marker);
    place += index_->table.pieces[marker].text.size();
    plain_begin = place;
  }
  index_->EncodePlain(whole.substr(plain_begin), out);
  return out;
}

std::string_view Tokenizer::Surface(uint32_t id) const {
  return id < index_->surfaces.size() ? std::string_view(index_->surfaces[id]) : std::string_view();
}

std::string Tokenizer::Decode(std::span<const uint32_t> ids) const {
  StreamDecoder decoder(*this);
  std::string text;
  for (const uint32_t id : ids) text += decoder.Push(id);
  return text + decoder.Finish();
}

std::string StreamDecoder::Push(uint32_t id) {
  std::string_view surface = tokenizer_.Surface(id);
  if (surface.empty()) return std::string();
  if (at_start_ && tokenizer_.table().add_dummy_prefix && surface.front() == ' ') {
    surface.remove_prefix(1);
  }
  at_start_ = false;
  pending_ += surface;
  // Only the last three bytes can belong to a character that is still open.
  size_t complete = pending_.size();
  for (size_t back = 1; back <= std::min<size_t>(3, pending_.size()); ++back) {
    const size_t place = pending_.size() - back;
    if (base::NextUtf8(std::string_view(pending_).substr(place)).kind ==
        base::Utf8Kind::kTruncated) {
      complete = place;
    }
  }
  std::string text = base::ReplaceInvalidUtf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string StreamDecoder::Finish() {
  std::string text = base::ReplaceInvalidUtf8(pending_);
  pending_.clear();
  at_start_ = true;
  return text;
}

}  // namespace needle::engine
