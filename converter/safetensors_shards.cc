#include "converter/safetensors_shards.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mapped_file.h"
#include "base/status_macros.h"

namespace needle::converter {
namespace {

absl::StatusOr<base::Json> ReadWeightMap(const std::string& index_path) {
  ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(index_path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  auto json = base::ParseJson(text);
  if (!json.ok()) return base::WithContext(json.status(), index_path);
  const auto found = json->is_object() ? json->find("weight_map") : json->end();
  if (found == json->end() || !found->is_object()) {
    return absl::DataLossError(absl::StrCat(index_path, ": no object \"weight_map\""));
  }
  return *found;
}

// The files that the index lists. Names lead to no other folder.
absl::StatusOr<std::set<std::string>> ShardNames(const std::string& index_path,
                                                 const base::Json& weight_map) {
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map.items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : std::string();
    if (name.empty() || name == "." || name == ".." ||
        name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      return absl::DataLossError(
          absl::StrFormat("%s: tensor \"%s\" is in %s, want the name of a file beside the index",
                          index_path, tensor, base::DumpJson(file)));
    }
    names.insert(name);
  }
  return names;
}

}  // namespace

absl::Status SafetensorsShards::AddShard(const std::string& name, const base::Json& weight_map) {
  const auto path = std::filesystem::path(index_path_).parent_path() / name;
  auto shard = SafetensorsFile::Open(path.string());
  if (!shard.ok()) {
    return base::WithContext(shard.status(), absl::StrCat(index_path_, ": shard ", name));
  }
  const std::vector<Leaf>& held = (*shard)->leaves();
  for (size_t i = 0; i < held.size(); ++i) {
    const auto listed = weight_map.find(held[i].name);
    if (listed == weight_map.end() || *listed != name) {
      return absl::DataLossError(absl::StrFormat(
          "%s: shard %s holds tensor \"%s\", which the index %s", index_path_, name, held[i].name,
          listed == weight_map.end() ? "does not list"
                                     : absl::StrCat("puts in ", base::DumpJson(*listed))));
    }
    leaves_.push_back(held[i]);
    places_.push_back({shards_.size(), i});
  }
  shards_.push_back(*std::move(shard));
  return absl::OkStatus();
}

void SafetensorsShards::SortLeaves() {
  std::vector<size_t> order(leaves_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return leaves_[a].name < leaves_[b].name; });
  std::vector<Leaf> leaves;
  std::vector<Place> places;
  for (const size_t i : order) {
    leaves.push_back(std::move(leaves_[i]));
    places.push_back(places_[i]);
  }
  leaves_ = std::move(leaves);
  places_ = std::move(places);
}

absl::Status SafetensorsShards::CheckMetadata() const {
  std::map<std::string, std::pair<std::string, std::string>> seen;  // key -> value, shard
  for (const auto& shard : shards_) {
    for (const auto& [key, value] : shard->metadata()) {
      const auto [entry, is_new] = seen.try_emplace(key, value, shard->files().front());
      if (is_new || entry->second.first == value) continue;
      return absl::DataLossError(absl::StrFormat("%s: metadata \"%s\" differs between %s and %s",
                                                 index_path_, key, entry->second.second,
                                                 shard->files().front()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SafetensorsShards>> SafetensorsShards::Open(
    const std::string& index_path) {
  ASSIGN_OR_RETURN(const base::Json weight_map, ReadWeightMap(index_path));
  ASSIGN_OR_RETURN(const std::set<std::string> names, ShardNames(index_path, weight_map));
  std::unique_ptr<SafetensorsShards> result(new SafetensorsShards());
  result->index_path_ = index_path;
  for (const std::string& name : names) RETURN_IF_ERROR(result->AddShard(name, weight_map));
  result->SortLeaves();
  for (const auto& [tensor, file] : weight_map.items()) {
    if (FindLeaf(result->leaves_, tensor)) continue;
    return absl::DataLossError(absl::StrFormat("%s: shard %s does not hold tensor \"%s\"",
                                               index_path, file.get<std::string>(), tensor));
  }
  RETURN_IF_ERROR(result->CheckMetadata());
  return result;
}

absl::StatusOr<LeafData> SafetensorsShards::Data(size_t index) const {
  return shards_[places_[index].shard]->Data(places_[index].leaf);
}

absl::StatusOr<std::optional<base::Json>> SafetensorsShards::Metadata(std::string_view key) const {
  for (const auto& shard : shards_) {
    if (shard->metadata().contains(key)) return shard->Metadata(key);
  }
  return std::nullopt;
}

std::vector<std::string> SafetensorsShards::files() const {
  std::vector<std::string> files = {index_path_};
  for (const auto& shard : shards_) files.push_back(shard->files().front());
  return files;
}

}  // namespace needle::converter
