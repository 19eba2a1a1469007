#include "converter/pickle_file.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/checked.h"
#include "base/status_macros.h"

namespace needle::converter {
namespace {

constexpr int kMaxDepth = 64;
// Shared values may repeat many times when a tree is written out.
constexpr size_t kMaxLeaves = 10'000;
constexpr size_t kMaxConfigValues = 10'000;

}  // namespace

std::optional<PickleRef> PickleFile::FindKey(std::string_view key) const {
  const PickleValue& root = pickle_.heap.at(pickle_.root);
  for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
    const PickleValue& name = pickle_.heap.at(root.items[i]);
    if (name.kind == PickleKind::kText && pickle_.heap.Text(root.items[i]) == key) {
      return root.items[i + 1];
    }
  }
  return std::nullopt;
}

absl::Status PickleFile::AddArray(const std::string& name, PickleRef ref) {
  const PickleValue& array = pickle_.heap.at(ref);
  const auto count = NumLeafValues(array.shape);
  const auto want = count ? base::CheckedMul(*count, array.type.bytes) : std::nullopt;
  if (!array.is_set || !want || *want != array.bytes.size()) {
    return absl::DataLossError(absl::StrFormat("\"%s\": %d bytes do not make %s %s", name,
                                               array.bytes.size(), array.type_name,
                                               LeafShapeText(array.shape)));
  }
  leaves_.push_back({name, array.type.type, array.type_name, array.shape});
  arrays_.push_back(ref);
  return absl::OkStatus();
}

absl::Status PickleFile::AddTree(const std::string& prefix, PickleRef ref, int depth) {
  const PickleValue& value = pickle_.heap.at(ref);
  if (value.kind == PickleKind::kArray) return AddArray(prefix, ref);
  if (value.kind != PickleKind::kDict) {
    return absl::DataLossError(absl::StrFormat("\"%s\" is neither a dict nor an array", prefix));
  }
  if (depth == kMaxDepth || leaves_.size() > kMaxLeaves) {
    return absl::DataLossError(absl::StrFormat("\"%s\": the tree is too deep or large", prefix));
  }
  for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
    if (pickle_.heap.at(value.items[i]).kind != PickleKind::kText) {
      return absl::DataLossError(absl::StrFormat("\"%s\" has a key that is no text", prefix));
    }
    const std::string name(pickle_.heap.Text(value.items[i]));
    RETURN_IF_ERROR(AddTree(prefix.empty() ? name : absl::StrCat(prefix, "/", name),
                            value.items[i + 1], depth + 1));
  }
  return absl::OkStatus();
}

absl::Status PickleFile::Flatten() {
  if (pickle_.heap.at(pickle_.root).kind != PickleKind::kDict) {
    return absl::DataLossError("the pickle holds no dict");
  }
  const auto params = FindKey("params");
  const auto lora = FindKey("lora");
  if (!params && !lora) return absl::DataLossError("the dict has neither \"params\" nor \"lora\"");
  RETURN_IF_ERROR(params ? AddTree("", *params, 0) : AddTree("lora", *lora, 0));

  std::vector<size_t> order(leaves_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return leaves_[a].name < leaves_[b].name; });
  std::vector<Leaf> leaves;
  std::vector<PickleRef> arrays;
  for (const size_t i : order) {
    if (!leaves.empty() && leaves.back().name == leaves_[i].name) {
      return absl::DataLossError(absl::StrFormat("\"%s\" is there twice", leaves_[i].name));
    }
    leaves.push_back(leaves_[i]);
    arrays.push_back(arrays_[i]);
  }
  leaves_ = std::move(leaves);
  arrays_ = std::move(arrays);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PickleFile>> PickleFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(base::MappedFile file, base::MappedFile::Open(path));
  auto pickle = ReadPickle(file.bytes());
  if (!pickle.ok()) return base::WithContext(pickle.status(), path);
  std::unique_ptr<PickleFile> result(new PickleFile(std::move(file), *std::move(pickle)));
  const absl::Status flat = result->Flatten();
  if (!flat.ok()) return base::WithContext(flat, path);
  return result;
}

absl::StatusOr<LeafData> PickleFile::Data(size_t index) const {
  const PickleValue& array = pickle_.heap.at(arrays_[index]);
  LeafData data;
  data.bytes = array.bytes;
  data.fortran_order = array.fortran_order;
  if (!array.type.big_endian) return data;
  std::vector<uint8_t> swapped(array.bytes.begin(), array.bytes.end());
  for (size_t i = 0; i < swapped.size(); i += array.type.bytes) {
    std::reverse(&swapped[i], &swapped[i] + array.type.bytes);
  }
  data.owner = std::make_shared<const std::vector<uint8_t>>(std::move(swapped));
  data.bytes = *data.owner;
  return data;
}

absl::StatusOr<base::Json> PickleFile::ToJson(PickleRef ref, int depth, size_t& budget) const {
  const PickleValue& value = pickle_.heap.at(ref);
  if (depth == kMaxDepth || budget == 0) return absl::DataLossError("too deep or large");
  --budget;
  switch (value.kind) {
    case PickleKind::kNone:
      return base::Json(nullptr);
    case PickleKind::kBool:
      return base::Json(value.number != 0);
    case PickleKind::kInt:
      return base::Json(value.number);
    case PickleKind::kFloat:
      return base::Json(value.real);
    case PickleKind::kText:
      return base::Json(std::string(pickle_.heap.Text(ref)));
    case PickleKind::kList:
    case PickleKind::kTuple: {
      base::Json list = base::Json::array();
      for (const PickleRef item : value.items) {
        ASSIGN_OR_RETURN(base::Json element, ToJson(item, depth + 1, budget));
        list.push_back(std::move(element));
      }
      return list;
    }
    case PickleKind::kDict:
    case PickleKind::kObject: {
      base::Json object = base::Json::object();
      for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
        if (pickle_.heap.at(value.items[i]).kind != PickleKind::kText) {
          return absl::DataLossError("a key that is no text");
        }
        ASSIGN_OR_RETURN(base::Json element, ToJson(value.items[i + 1], depth + 1, budget));
        object[std::string(pickle_.heap.Text(value.items[i]))] = std::move(element);
      }
      return object;
    }
    case PickleKind::kArray:
      // A NumPy scalar of a floating-point type.
      if (value.shape.empty() && value.is_set && value.type.type && !value.type.big_endian &&
          value.bytes.size() == value.type.bytes) {
        return base::Json(LeafValue(*value.type.type, value.bytes.data()));
      }
      break;
    default:
      break;
  }
  return absl::DataLossError("a value that is no number, text, list or dict");
}

absl::StatusOr<std::optional<base::Json>> PickleFile::Metadata(std::string_view key) const {
  const auto ref = FindKey(key);
  if (!ref) return std::nullopt;
  size_t budget = kMaxConfigValues;
  auto json = ToJson(*ref, 0, budget);
  if (json.ok()) return *std::move(json);
  return base::WithContext(json.status(),
                           absl::StrCat(file_.path(), ": \"", std::string(key), "\""));
}

}  // namespace needle::converter
