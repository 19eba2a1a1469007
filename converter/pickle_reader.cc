#include "converter/pickle_reader.h"

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/status_macros.h"
#include "converter/pickle_globals.h"
#include "converter/pickle_opcodes.h"

namespace needle::converter {
namespace {

// A checkpoint has some thousands. The bound keeps a small hostile file from costing much memory.
constexpr size_t kMaxValues = 200'000;
constexpr uint8_t kMaxProtocol = 5;

class Machine {
 public:
  explicit Machine(std::span<const uint8_t> stream) : stream_(stream) {}

  absl::StatusOr<Pickle> Run() {
    while (!stopped_) {
      opcode_offset_ = next_;
      ASSIGN_OR_RETURN(const auto opcode, Take(1));
      const absl::Status status = Execute(opcode[0]);
      if (!status.ok()) return AtOpcode(status, opcode[0]);
      if (frame_end_ && next_ == *frame_end_) frame_end_.reset();
    }
    if (next_ != stream_.size()) {
      return absl::DataLossError(
          absl::StrFormat("%d bytes behind the pickle's end", stream_.size() - next_));
    }
    return std::move(pickle_);
  }

 private:
  PickleHeap& heap() { return pickle_.heap; }

  absl::Status AtOpcode(const absl::Status& status, uint8_t opcode) const {
    return absl::Status(status.code(),
                        absl::StrCat("pickle: opcode ", absl::StrFormat("0x%02x", opcode),
                                     " at byte ", opcode_offset_, ": ", status.message()));
  }

  // The next bytes of the stream; an argument may not cross the end of its frame.
  absl::StatusOr<std::span<const uint8_t>> Take(uint64_t count) {
    const uint64_t end = frame_end_.value_or(stream_.size());
    if (count > end - next_) {
      return absl::DataLossError(
          absl::StrFormat("pickle: %d bytes wanted at byte %d, where the %s has %d left", count,
                          next_, frame_end_ ? "frame" : "file", end - next_));
    }
    const auto taken = stream_.subspan(next_, count);
    next_ += count;
    return taken;
  }

  template <typename T>
  absl::StatusOr<T> Number() {
    ASSIGN_OR_RETURN(const auto bytes, Take(sizeof(T)));
    return base::LoadLe<T>(bytes.data());
  }

  absl::Status Push(PickleValue value) {
    if (heap().size() == kMaxValues) {
      return absl::UnimplementedError(absl::StrFormat("more than %d values", kMaxValues));
    }
    stack_.push_back(heap().Add(std::move(value)));
    return absl::OkStatus();
  }
  absl::Status Push(PickleKind kind, int64_t number = 0) {
    PickleValue value;
    value.kind = kind;
    value.number = number;
    return Push(std::move(value));
  }

  // Values above the last mark, or above the bottom.
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  absl::StatusOr<PickleRef> Pop() {
    if (stack_.size() <= Floor()) return absl::DataLossError("the stack is empty");
    const PickleRef top = stack_.back();
    stack_.pop_back();
    return top;
  }
  absl::StatusOr<PickleRef> Top() const {
    if (stack_.size() <= Floor()) return absl::DataLossError("the stack is empty");
    return stack_.back();
  }
  absl::StatusOr<std::vector<PickleRef>> PopToMark() {
    if (marks_.empty()) return absl::DataLossError("no mark on the stack");
    std::vector<PickleRef> items(stack_.begin() + static_cast<int64_t>(marks_.back()),
                                 stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  absl::StatusOr<std::vector<PickleRef>> PopSome(size_t count) {
    if (stack_.size() - Floor() < count) return absl::DataLossError("the stack is too short");
    std::vector<PickleRef> items(stack_.end() - static_cast<int64_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }

  template <typename Length>
  absl::Status PushBytes(PickleKind kind) {
    ASSIGN_OR_RETURN(const auto length, Number<Length>());
    PickleValue value;
    value.kind = kind;
    ASSIGN_OR_RETURN(value.bytes, Take(length));
    return Push(std::move(value));
  }

  template <typename T>
  absl::Status PushInt() {
    ASSIGN_OR_RETURN(const T number, Number<T>());
    return Push(PickleKind::kInt, number);
  }

  // Two's complement of up to 8 bytes.
  absl::Status PushLong() {
    ASSIGN_OR_RETURN(const auto length, Number<uint8_t>());
    if (length > sizeof(int64_t)) return absl::UnimplementedError("a number of over 64 bits");
    ASSIGN_OR_RETURN(const auto bytes, Take(length));
    uint64_t number = !bytes.empty() && bytes.back() >= 0x80 ? UINT64_MAX : 0;
    std::memcpy(&number, bytes.data(), bytes.size());
    return Push(PickleKind::kInt, static_cast<int64_t>(number));
  }

  absl::Status PushFloat() {
    ASSIGN_OR_RETURN(const auto bytes, Take(sizeof(double)));
    std::vector<uint8_t> reversed(bytes.rbegin(), bytes.rend());  // it is big-endian
    PickleValue value;
    value.kind = PickleKind::kFloat;
    value.real = base::LoadLe<double>(reversed.data());
    return Push(std::move(value));
  }

  absl::Status PushTuple(absl::StatusOr<std::vector<PickleRef>> items) {
    if (!items.ok()) return items.status();
    PickleValue value;
    value.kind = PickleKind::kTuple;
    value.items = *std::move(items);
    return Push(std::move(value));
  }

  absl::Status PushGlobal(std::string_view module, std::string_view name) {
    const std::string text = absl::StrFormat("%s %s", std::string(module), std::string(name));
    PickleValue value;
    value.kind = PickleKind::kGlobal;
    value.bytes = heap().Keep({text.begin(), text.end()});
    value.offset = opcode_offset_;
    return Push(std::move(value));
  }

  absl::StatusOr<std::string> Line() {
    std::string line;
    for (;;) {
      ASSIGN_OR_RETURN(const auto byte, Take(1));
      if (byte[0] == '\n') return line;
      line.push_back(static_cast<char>(byte[0]));
    }
  }
  absl::Status ReadGlobal() {
    ASSIGN_OR_RETURN(const std::string module, Line());
    ASSIGN_OR_RETURN(const std::string name, Line());
    return PushGlobal(module, name);
  }
  absl::Status StackGlobal() {
    ASSIGN_OR_RETURN(const auto names, PopSome(2));
    if (heap().at(names[0]).kind != PickleKind::kText ||
        heap().at(names[1]).kind != PickleKind::kText) {
      return absl::DataLossError("a global whose name is no text");
    }
    return PushGlobal(heap().Text(names[0]), heap().Text(names[1]));
  }

  absl::Status Put(uint64_t number) {
    ASSIGN_OR_RETURN(memo_[number], Top());
    return absl::OkStatus();
  }
  absl::Status Get(uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) {
      return absl::DataLossError(absl::StrFormat("memo %d was never set", number));
    }
    stack_.push_back(found->second);
    return absl::OkStatus();
  }

  absl::Status Extend(const std::vector<PickleRef>& items, PickleKind kind) {
    ASSIGN_OR_RETURN(const PickleRef target, Top());
    if (heap().at(target).kind != kind || (kind == PickleKind::kDict && items.size() % 2 != 0)) {
      return absl::DataLossError("adds items to what does not take them");
    }
    auto& held = heap().at(target).items;
    held.insert(held.end(), items.begin(), items.end());
    return absl::OkStatus();
  }

  absl::Status Call(absl::StatusOr<PickleRef> (*make)(PickleHeap&, PickleRef, PickleRef)) {
    ASSIGN_OR_RETURN(const auto operands, PopSome(2));
    ASSIGN_OR_RETURN(const PickleRef result, make(heap(), operands[0], operands[1]));
    stack_.push_back(result);
    return absl::OkStatus();
  }

  absl::Status Build() {
    ASSIGN_OR_RETURN(const PickleRef state, Pop());
    ASSIGN_OR_RETURN(const PickleRef target, Top());
    return SetState(heap(), target, state);
  }

  absl::Status StartFrame() {
    ASSIGN_OR_RETURN(const auto length, Number<uint64_t>());
    if (frame_end_ && next_ != *frame_end_) return absl::DataLossError("a frame inside a frame");
    if (length > stream_.size() - next_) {
      return absl::DataLossError(absl::StrFormat("a frame of %d bytes where the file has %d left",
                                                 length, stream_.size() - next_));
    }
    frame_end_ = next_ + length;
    return absl::OkStatus();
  }

  absl::Status CheckProtocol() {
    ASSIGN_OR_RETURN(const auto protocol, Number<uint8_t>());
    if (protocol <= kMaxProtocol) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrFormat("protocol %d, want at most %d", protocol, kMaxProtocol));
  }

  absl::Status Stop() {
    ASSIGN_OR_RETURN(pickle_.root, Pop());
    if (!stack_.empty() || !marks_.empty()) return absl::DataLossError("values left on the stack");
    stopped_ = true;
    return absl::OkStatus();
  }

  absl::Status Execute(uint8_t opcode);
  absl::Status ExecuteData(uint8_t opcode);
  absl::Status ExecuteMemo(uint8_t opcode);

  std::span<const uint8_t> stream_;
  uint64_t next_ = 0;
  uint64_t opcode_offset_ = 0;
  std::optional<uint64_t> frame_end_;
  Pickle pickle_;
  std::vector<PickleRef> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::map<uint64_t, PickleRef> memo_;
  bool stopped_ = false;
};

absl::Status Machine::Execute(uint8_t opcode) {
  switch (opcode) {
    case kProto:
      return CheckProtocol();
    case kFrame:
      return StartFrame();
    case kStop:
      return Stop();
    case kMark:
      if (marks_.size() == kMaxValues) return absl::UnimplementedError("too many marks");
      marks_.push_back(stack_.size());
      return absl::OkStatus();
    case kPop:
      return Pop().status();
    case kPopMark:
      return PopToMark().status();
    case kGlobal:
      return ReadGlobal();
    case kStackGlobal:
      return StackGlobal();
    case kReduce:
      return Call(CallGlobal);
    case kNewObj:
      return Call(NewObject);
    case kBuild:
      return Build();
    case kAppend: {
      ASSIGN_OR_RETURN(const auto items, PopSome(1));
      return Extend(items, PickleKind::kList);
    }
    case kAppends: {
      ASSIGN_OR_RETURN(const auto items, PopToMark());
      return Extend(items, PickleKind::kList);
    }
    case kSetItem: {
      ASSIGN_OR_RETURN(const auto items, PopSome(2));
      return Extend(items, PickleKind::kDict);
    }
    case kSetItems: {
      ASSIGN_OR_RETURN(const auto items, PopToMark());
      return Extend(items, PickleKind::kDict);
    }
    default:
      return ExecuteMemo(opcode);
  }
}

absl::Status Machine::ExecuteMemo(uint8_t opcode) {
  switch (opcode) {
    case kMemoize:
      return Put(memo_.size());
    case kBinPut: {
      ASSIGN_OR_RETURN(const auto number, Number<uint8_t>());
      return Put(number);
    }
    case kLongBinPut: {
      ASSIGN_OR_RETURN(const auto number, Number<uint32_t>());
      return Put(number);
    }
    case kBinGet: {
      ASSIGN_OR_RETURN(const auto number, Number<uint8_t>());
      return Get(number);
    }
    case kLongBinGet: {
      ASSIGN_OR_RETURN(const auto number, Number<uint32_t>());
      return Get(number);
    }
    default:
      return ExecuteData(opcode);
  }
}

absl::Status Machine::ExecuteData(uint8_t opcode) {
  switch (opcode) {
    case kNone:
      return Push(PickleKind::kNone);
    case kNewTrue:
      return Push(PickleKind::kBool, 1);
    case kNewFalse:
      return Push(PickleKind::kBool, 0);
    case kBinInt:
      return PushInt<int32_t>();
    case kBinInt1:
      return PushInt<uint8_t>();
    case kBinInt2:
      return PushInt<uint16_t>();
    case kLong1:
      return PushLong();
    case kBinFloat:
      return PushFloat();
    case kShortBinUnicode:
      return PushBytes<uint8_t>(PickleKind::kText);
    case kBinUnicode:
      return PushBytes<uint32_t>(PickleKind::kText);
    case kBinUnicode8:
      return PushBytes<uint64_t>(PickleKind::kText);
    case kShortBinBytes:
      return PushBytes<uint8_t>(PickleKind::kBytes);
    case kBinBytes:
      return PushBytes<uint32_t>(PickleKind::kBytes);
    case kBinBytes8:
    case kByteArray8:
      return PushBytes<uint64_t>(PickleKind::kBytes);
    case kEmptyDict:
      return Push(PickleKind::kDict);
    case kEmptyList:
      return Push(PickleKind::kList);
    case kEmptyTuple:
      return Push(PickleKind::kTuple);
    case kTuple:
      return PushTuple(PopToMark());
    case kTuple1:
      return PushTuple(PopSome(1));
    case kTuple2:
      return PushTuple(PopSome(2));
    case kTuple3:
      return PushTuple(PopSome(3));
    default:
      return absl::UnimplementedError("not an opcode that a checkpoint needs");
  }
}

}  // namespace

absl::StatusOr<Pickle> ReadPickle(std::span<const uint8_t> stream) { return Machine(stream).Run(); }

}  // namespace needle::converter
