#include "converter/pickle_globals.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace needle::converter {
namespace {

using Handler = absl::StatusOr<PickleRef> (*)(PickleHeap&, std::span<const PickleRef>);

absl::Status BadArguments(std::string_view name) {
  return absl::DataLossError(
      absl::StrCat("the arguments of ", std::string(name), " are not those it takes"));
}

bool Is(const PickleHeap& heap, PickleRef ref, PickleKind kind) {
  return heap.at(ref).kind == kind;
}

absl::StatusOr<std::vector<uint64_t>> ReadShape(const PickleHeap& heap, PickleRef ref) {
  if (!Is(heap, ref, PickleKind::kTuple)) return BadArguments("an array: its shape");
  std::vector<uint64_t> shape;
  for (const PickleRef item : heap.at(ref).items) {
    if (!Is(heap, item, PickleKind::kInt) || heap.at(item).number < 0) {
      return BadArguments("an array: its shape");
    }
    shape.push_back(static_cast<uint64_t>(heap.at(item).number));
  }
  return shape;
}

// Fills an array whose elements are bytes. `dtype` and `bytes` are checked to be such.
absl::Status SetArray(PickleHeap& heap, PickleRef array, PickleRef dtype, PickleRef bytes,
                      std::vector<uint64_t> shape, bool fortran_order) {
  if (!Is(heap, dtype, PickleKind::kDtype) || !Is(heap, bytes, PickleKind::kBytes)) {
    return BadArguments("an array: its type or elements");
  }
  PickleValue& target = heap.at(array);
  target.type = heap.at(dtype).type;
  target.type_name = heap.at(dtype).type_name;
  target.bytes = heap.at(bytes).bytes;
  target.shape = std::move(shape);
  target.fortran_order = fortran_order;
  target.is_set = true;
  return absl::OkStatus();
}

// _reconstruct(ndarray, (0,), b'b'): an array that BUILD fills.
absl::StatusOr<PickleRef> Reconstruct(PickleHeap& heap, std::span<const PickleRef> arguments) {
  if (arguments.size() != 3 || !Is(heap, arguments[0], PickleKind::kGlobal) ||
      heap.Text(arguments[0]) != "numpy ndarray") {
    return BadArguments("_reconstruct");
  }
  PickleValue array;
  array.kind = PickleKind::kArray;
  return heap.Add(std::move(array));
}

// _frombuffer(bytes, dtype, shape, order): protocol 5's whole array.
absl::StatusOr<PickleRef> FromBuffer(PickleHeap& heap, std::span<const PickleRef> arguments) {
  if (arguments.size() != 4 || !Is(heap, arguments[3], PickleKind::kText)) {
    return BadArguments("_frombuffer");
  }
  const std::string_view order = heap.Text(arguments[3]);
  if (order != "C" && order != "F") return BadArguments("_frombuffer");
  ASSIGN_OR_RETURN(std::vector<uint64_t> shape, ReadShape(heap, arguments[2]));
  PickleValue array;
  array.kind = PickleKind::kArray;
  const PickleRef ref = heap.Add(std::move(array));
  RETURN_IF_ERROR(SetArray(heap, ref, arguments[1], arguments[0], std::move(shape), order == "F"));
  return ref;
}

// scalar(dtype, bytes): an array of no dimensions.
absl::StatusOr<PickleRef> Scalar(PickleHeap& heap, std::span<const PickleRef> arguments) {
  if (arguments.size() != 2) return BadArguments("scalar");
  PickleValue array;
  array.kind = PickleKind::kArray;
  const PickleRef ref = heap.Add(std::move(array));
  RETURN_IF_ERROR(SetArray(heap, ref, arguments[0], arguments[1], {}, false));
  return ref;
}

// dtype("f4", False, True), or of a scalar class: BUILD sets the byte order.
absl::StatusOr<PickleRef> Dtype(PickleHeap& heap, std::span<const PickleRef> arguments) {
  if (arguments.empty()) return BadArguments("dtype");
  PickleValue dtype;
  dtype.kind = PickleKind::kDtype;
  if (Is(heap, arguments[0], PickleKind::kGlobal)) {
    if (heap.Text(arguments[0]) != "ml_dtypes bfloat16") {
      return absl::UnimplementedError(absl::StrFormat("asks for the global \"%s\" at byte %d",
                                                      std::string(heap.Text(arguments[0])),
                                                      heap.at(arguments[0]).offset));
    }
    dtype.type_name = "<V2";  // how NumPy itself writes it
  } else if (Is(heap, arguments[0], PickleKind::kText)) {
    dtype.type_name = absl::StrCat("<", std::string(heap.Text(arguments[0])));
  } else {
    return BadArguments("dtype");
  }
  ASSIGN_OR_RETURN(dtype.type, ParseNpyType(dtype.type_name));
  return heap.Add(std::move(dtype));
}

// encode(text, "latin1"): how protocol 2 writes bytes.
absl::StatusOr<PickleRef> EncodeLatin1(PickleHeap& heap, std::span<const PickleRef> arguments) {
  if (arguments.size() != 2 || !Is(heap, arguments[0], PickleKind::kText) ||
      !Is(heap, arguments[1], PickleKind::kText) || heap.Text(arguments[1]) != "latin1") {
    return BadArguments("_codecs.encode");
  }
  const auto text = heap.at(arguments[0]).bytes;
  std::vector<uint8_t> bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] < 0x80) {
      bytes.push_back(text[i]);
      continue;
    }
    // The characters U+0080 to U+00FF are C2 or C3, then their low six bits.
    const bool is_latin1 = (text[i] == 0xC2 || text[i] == 0xC3) && i + 1 < text.size() &&
                           (text[i + 1] & 0xC0U) == 0x80;
    if (!is_latin1) return BadArguments("_codecs.encode");
    bytes.push_back(static_cast<uint8_t>(((text[i] & 3U) << 6) | (text[i + 1] & 0x3FU)));
    ++i;
  }
  PickleValue value;
  value.kind = PickleKind::kBytes;
  value.bytes = heap.Keep(std::move(bytes));
  return heap.Add(std::move(value));
}

template <PickleKind kKind>
absl::StatusOr<PickleRef> Empty(PickleHeap& heap, std::span<const PickleRef> arguments) {
  if (!arguments.empty()) return BadArguments("an empty dict or bytes");
  PickleValue value;
  value.kind = kKind;
  return heap.Add(std::move(value));
}

struct GlobalRow {
  std::string_view name;
  Handler handler;
};

// Module names of NumPy 1 (numpy.core) and 2 (numpy._core).
constexpr GlobalRow kGlobals[] = {
    {"numpy.core.multiarray _reconstruct", Reconstruct},
    {"numpy._core.multiarray _reconstruct", Reconstruct},
    {"numpy.core.numeric _frombuffer", FromBuffer},
    {"numpy._core.numeric _frombuffer", FromBuffer},
    {"numpy.core.multiarray scalar", Scalar},
    {"numpy._core.multiarray scalar", Scalar},
    {"numpy dtype", Dtype},
    {"_codecs encode", EncodeLatin1},
    {"collections OrderedDict", Empty<PickleKind::kDict>},
    {"builtins bytes", Empty<PickleKind::kBytes>},
    {"__builtin__ bytes", Empty<PickleKind::kBytes>},
};

// (version, byte order, None, None, None, -1, -1, flags)
absl::Status SetDtypeState(PickleHeap& heap, PickleRef target, PickleRef state) {
  const std::vector<PickleRef>& items = heap.at(state).items;
  if (!Is(heap, state, PickleKind::kTuple) || items.size() < 5 ||
      !Is(heap, items[1], PickleKind::kText) || heap.at(items[1]).bytes.size() != 1 ||
      !std::all_of(items.begin() + 2, items.begin() + 5,
                   [&](PickleRef item) { return Is(heap, item, PickleKind::kNone); })) {
    return BadArguments("a dtype: its state");
  }
  PickleValue& dtype = heap.at(target);
  const char order = heap.Text(items[1])[0];
  if (order == '>') dtype.type_name[0] = '>';
  ASSIGN_OR_RETURN(const NpyType type, ParseNpyType(dtype.type_name));
  dtype.type = type;
  return absl::OkStatus();
}

// (version, shape, dtype, is in Fortran order, bytes)
absl::Status SetArrayState(PickleHeap& heap, PickleRef target, PickleRef state) {
  const std::vector<PickleRef> items = heap.at(state).items;
  if (!Is(heap, state, PickleKind::kTuple) || items.size() != 5 ||
      !Is(heap, items[3], PickleKind::kBool)) {
    return BadArguments("an array: its state");
  }
  ASSIGN_OR_RETURN(std::vector<uint64_t> shape, ReadShape(heap, items[1]));
  return SetArray(heap, target, items[2], items[4], std::move(shape),
                  heap.at(items[3]).number != 0);
}

}  // namespace

absl::StatusOr<PickleRef> CallGlobal(PickleHeap& heap, PickleRef callable, PickleRef arguments) {
  if (!Is(heap, callable, PickleKind::kGlobal) || !Is(heap, arguments, PickleKind::kTuple)) {
    return absl::DataLossError("calls what is no global");
  }
  const std::string_view name = heap.Text(callable);
  const auto* row = std::find_if(std::begin(kGlobals), std::end(kGlobals),
                                 [&](const GlobalRow& known) { return known.name == name; });
  if (row == std::end(kGlobals)) {
    return absl::UnimplementedError(absl::StrFormat(
        "asks to call the global \"%s\" at byte %d, which no checkpoint needs; nothing was run",
        std::string(name), heap.at(callable).offset));
  }
  const std::vector<PickleRef> items = heap.at(arguments).items;
  return row->handler(heap, items);
}

absl::StatusOr<PickleRef> NewObject(PickleHeap& heap, PickleRef callable, PickleRef arguments) {
  if (!Is(heap, callable, PickleKind::kGlobal) || !Is(heap, arguments, PickleKind::kTuple)) {
    return absl::DataLossError("makes an object of what is no class");
  }
  if (!heap.at(arguments).items.empty()) {
    return absl::UnimplementedError(absl::StrFormat(
        "makes an object of the global \"%s\" at byte %d from arguments; only objects whose state "
        "is a dict are read",
        std::string(heap.Text(callable)), heap.at(callable).offset));
  }
  PickleValue object;
  object.kind = PickleKind::kObject;
  object.bytes = heap.at(callable).bytes;
  if (heap.Text(callable) == "collections OrderedDict") object.kind = PickleKind::kDict;
  return heap.Add(std::move(object));
}

absl::Status SetState(PickleHeap& heap, PickleRef target, PickleRef state) {
  switch (heap.at(target).kind) {
    case PickleKind::kArray:
      return SetArrayState(heap, target, state);
    case PickleKind::kDtype:
      return SetDtypeState(heap, target, state);
    case PickleKind::kObject:
      if (!Is(heap, state, PickleKind::kDict)) break;
      heap.at(target).items = heap.at(state).items;
      return absl::OkStatus();
    default:
      break;
  }
  return absl::DataLossError("gives a state to what has none, or one that is no dict");
}

}  // namespace needle::converter
