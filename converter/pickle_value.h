// converter/pickle_value.h: what a pickle holds, as far as checkpoints need it.
#ifndef NEEDLE_CONVERTER_PICKLE_VALUE_H_
#define NEEDLE_CONVERTER_PICKLE_VALUE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "converter/npy_header.h"

namespace needle::converter {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kText,    // bytes: UTF-8
  kBytes,   // bytes
  kList,    // items
  kTuple,   // items
  kDict,    // items: key, value, key, value ...
  kGlobal,  // bytes: "module name", a class or function that is named, never called
  kObject,  // items: its dict, once it has been set; bytes: the class
  kDtype,   // type, type_name
  kArray    // type, type_name, shape, fortran_order; bytes: the elements, once they have been set
};

// The number of a value in its PickleHeap. Values refer to each other by it, so that no chain of
// references, however long or circular, costs stack or leaks.
using PickleRef = uint32_t;

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  int64_t number = 0;  // kBool, kInt
  double real = 0;     // kFloat
  std::span<const uint8_t> bytes;
  std::vector<PickleRef> items;
  NpyType type;
  std::string type_name;
  std::vector<uint64_t> shape;
  bool fortran_order = false;
  bool is_set = false;  // kArray
  uint64_t offset = 0;  // kGlobal: where the stream asked for it
};

// Owns the values of a stream, and bytes that are not in the stream as they are meant.
class PickleHeap {
 public:
  PickleRef Add(PickleValue value) {
    values_.push_back(std::move(value));
    return static_cast<PickleRef>(values_.size() - 1);
  }
  size_t size() const { return values_.size(); }
  PickleValue& at(PickleRef ref) { return values_[ref]; }
  const PickleValue& at(PickleRef ref) const { return values_[ref]; }
  // Keeps `bytes` and returns where they are.
  std::span<const uint8_t> Keep(std::vector<uint8_t> bytes) {
    kept_.push_back(std::move(bytes));
    return kept_.back();
  }
  std::string_view Text(PickleRef ref) const {
    const auto bytes = values_[ref].bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::deque<PickleValue> values_;
  std::deque<std::vector<uint8_t>> kept_;
};

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_PICKLE_VALUE_H_
