#include "converter/npz_file.h"

#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <list>
#include <mutex>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/checked.h"
#include "base/mapped_file.h"
#include "base/status_macros.h"

namespace needle::converter {
namespace {

constexpr char kConfigMember[] = "config.json";
constexpr std::string_view kArrayEnding = ".npy";
constexpr uint64_t kCacheBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;
// Deflate cannot shrink more than 1032 to 1; a size beyond is a lie that would cost memory.
constexpr uint64_t kMaxDeflateRatio = 1032;

void ReverseElements(std::vector<uint8_t>& bytes, uint64_t start, uint64_t size) {
  for (uint64_t i = start; i + size <= bytes.size(); i += size) {
    std::reverse(bytes.begin() + static_cast<int64_t>(i),
                 bytes.begin() + static_cast<int64_t>(i + size));
  }
}

}  // namespace

// libzip's handle is for one thread at a time: everything that touches it holds `mutex`.
struct NpzFile::Zip {
  struct Discard {
    void operator()(zip_t* zip) const { zip_discard(zip); }
  };
  struct Close {
    void operator()(zip_file_t* file) const { zip_fclose(file); }
  };
  using File = std::unique_ptr<zip_file_t, Close>;

  std::string path;
  std::unique_ptr<zip_t, Discard> handle;
  std::mutex mutex;

  absl::Status Open() {
    int code = 0;
    handle.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
    if (handle) return absl::OkStatus();
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    return absl::DataLossError(absl::StrCat(path, ": not a zip archive: ", reason));
  }

  absl::StatusOr<zip_stat_t> Stat(uint64_t number) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    constexpr uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                 ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(handle.get(), number, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded) {
      return absl::DataLossError(
          absl::StrFormat("%s: member %d has no directory entry", path, number));
    }
    if (stat.encryption_method != ZIP_EM_NONE ||
        (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)) {
      return MemberError(stat.name, "want it stored or deflated, without encryption");
    }
    if (stat.size / kMaxDeflateRatio > stat.comp_size) {
      return MemberError(
          stat.name, absl::StrFormat("%d bytes out of %d cannot be", stat.size, stat.comp_size));
    }
    return stat;
  }

  absl::StatusOr<File> OpenMember(uint64_t number, const std::string& name) {
    File file(zip_fopen_index(handle.get(), number, 0));
    if (!file) return MemberError(name, zip_strerror(handle.get()));
    return file;
  }

  absl::Status Read(zip_file_t* file, const std::string& name, std::span<uint8_t> bytes) {
    for (uint64_t done = 0; done < bytes.size();) {
      const zip_int64_t got = zip_fread(file, &bytes[done], bytes.size() - done);
      if (got < 0) return MemberError(name, zip_file_strerror(file));
      if (got == 0) return MemberError(name, "shorter than the directory says");
      done += static_cast<uint64_t>(got);
    }
    return absl::OkStatus();
  }

  // A whole member; its checksum has been verified.
  absl::StatusOr<std::vector<uint8_t>> ReadAll(uint64_t number, const std::string& name,
                                               uint64_t size) {
    ASSIGN_OR_RETURN(const File file, OpenMember(number, name));
    std::vector<uint8_t> bytes(size);
    RETURN_IF_ERROR(Read(file.get(), name, bytes));
    uint8_t more = 0;
    const zip_int64_t rest = zip_fread(file.get(), &more, 1);  // checks the CRC at the end
    if (rest == 0) return bytes;
    return MemberError(name,
                       rest < 0 ? zip_file_strerror(file.get()) : "longer than the directory says");
  }

  absl::Status MemberError(const std::string& name, const std::string& what) const {
    return absl::DataLossError(absl::StrFormat("%s: member %s: %s", path, name, what));
  }
};

struct NpzFile::Member {
  uint64_t number = 0;  // in the zip directory
  std::string name;
  uint64_t size = 0;
  NpyHeader header;
};

struct NpzFile::Cache {
  using Bytes = std::shared_ptr<const std::vector<uint8_t>>;
  std::list<std::pair<size_t, Bytes>> recent;  // the latest first
  uint64_t bytes = 0;

  Bytes Find(size_t index) {
    const auto found = std::find_if(recent.begin(), recent.end(),
                                    [&](const auto& entry) { return entry.first == index; });
    if (found == recent.end()) return nullptr;
    recent.splice(recent.begin(), recent, found);
    return found->second;
  }
  void Add(size_t index, Bytes added) {
    bytes += added->size();
    recent.emplace_front(index, std::move(added));
    while (bytes > kCacheBytes && recent.size() > 1) {
      bytes -= recent.back().second->size();
      recent.pop_back();
    }
  }
};

NpzFile::NpzFile(std::string path)
    : path_(std::move(path)),
      zip_(std::make_unique<Zip>()),
      cache_(std::make_unique<Cache>()),
      files_({path_}) {
  zip_->path = path_;
}

NpzFile::~NpzFile() = default;

absl::Status NpzFile::AddMember(uint64_t number) {
  ASSIGN_OR_RETURN(const zip_stat_t stat, zip_->Stat(number));
  const std::string name = stat.name;
  if (absl::EndsWith(name, "/")) return absl::OkStatus();  // a folder
  if (name == kConfigMember) {
    if (stat.size > kMaxConfigBytes) return zip_->MemberError(name, "want at most 1 MiB");
    ASSIGN_OR_RETURN(const auto text, zip_->ReadAll(number, name, stat.size));
    auto config = base::ParseJson({reinterpret_cast<const char*>(text.data()), text.size()});
    if (!config.ok()) return zip_->MemberError(name, std::string(config.status().message()));
    config_ = *std::move(config);
    return absl::OkStatus();
  }
  if (!name.ends_with(kArrayEnding)) {
    return zip_->MemberError(name, "want names that end in .npy, and config.json");
  }
  Member member{.number = number, .name = name, .size = stat.size, .header = {}};
  ASSIGN_OR_RETURN(const Zip::File file, zip_->OpenMember(number, name));
  std::vector<uint8_t> bytes(kNpyPreambleBytes);
  RETURN_IF_ERROR(zip_->Read(file.get(), name, bytes));
  const auto header_bytes = NpyHeaderBytes(bytes);
  if (!header_bytes.ok())
    return zip_->MemberError(name, std::string(header_bytes.status().message()));
  bytes.resize(std::max(*header_bytes, kNpyPreambleBytes));
  RETURN_IF_ERROR(zip_->Read(file.get(), name, std::span(bytes).subspan(kNpyPreambleBytes)));
  auto header = ParseNpyHeader(std::span(bytes).first(*header_bytes));
  if (!header.ok()) return zip_->MemberError(name, std::string(header.status().message()));
  member.header = *std::move(header);

  const auto count = NumLeafValues(member.header.shape);
  const auto data = count ? base::CheckedMul(*count, member.header.type.bytes) : std::nullopt;
  const auto want = data ? base::CheckedAdd(*data, member.header.data_offset) : std::nullopt;
  if (!want || *want != stat.size) {
    return zip_->MemberError(
        name, absl::StrFormat("%d bytes, want %s for %s %s", stat.size,
                              want ? absl::StrCat(*want) : "more than 2^64",
                              member.header.type_name, LeafShapeText(member.header.shape)));
  }
  leaves_.push_back({name.substr(0, name.size() - kArrayEnding.size()), member.header.type.type,
                     member.header.type_name, member.header.shape});
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

void NpzFile::SortLeaves() {
  std::vector<size_t> order(leaves_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return leaves_[a].name < leaves_[b].name; });
  std::vector<Leaf> leaves;
  std::vector<Member> members;
  for (const size_t i : order) {
    leaves.push_back(std::move(leaves_[i]));
    members.push_back(std::move(members_[i]));
  }
  leaves_ = std::move(leaves);
  members_ = std::move(members);
}

absl::Status NpzFile::ReadSiblingConfig() {
  const std::string sibling = std::filesystem::path(path_).replace_extension(".json").string();
  std::error_code error;
  if (!std::filesystem::exists(sibling, error)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(sibling));
  auto config =
      base::ParseJson({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  if (!config.ok()) return base::WithContext(config.status(), sibling);
  files_.push_back(sibling);
  // Compared without regard to the order of keys.
  if (config_ && nlohmann::json(*config_) != nlohmann::json(*config)) {
    return absl::DataLossError(absl::StrFormat("%s: its member %s and %s hold different configs",
                                               path_, kConfigMember, sibling));
  }
  config_ = *std::move(config);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NpzFile>> NpzFile::Open(const std::string& path) {
  RETURN_IF_ERROR(base::MappedFile::Open(path).status());  // says what is wrong with the path
  std::unique_ptr<NpzFile> file(new NpzFile(path));
  RETURN_IF_ERROR(file->zip_->Open());
  const zip_int64_t num_members = zip_get_num_entries(file->zip_->handle.get(), 0);
  for (zip_int64_t i = 0; i < num_members; ++i) {
    RETURN_IF_ERROR(file->AddMember(static_cast<uint64_t>(i)));
  }
  file->SortLeaves();
  for (size_t i = 1; i < file->leaves_.size(); ++i) {
    if (file->leaves_[i - 1].name == file->leaves_[i].name) {
      return file->zip_->MemberError(file->members_[i].name, "is there twice");
    }
  }
  RETURN_IF_ERROR(file->ReadSiblingConfig());
  return file;
}

absl::StatusOr<LeafData> NpzFile::Data(size_t index) const {
  const Member& member = members_[index];
  const std::lock_guard lock(zip_->mutex);
  Cache::Bytes bytes = cache_->Find(index);
  if (!bytes) {
    ASSIGN_OR_RETURN(std::vector<uint8_t> read,
                     zip_->ReadAll(member.number, member.name, member.size));
    if (member.header.type.big_endian) {
      ReverseElements(read, member.header.data_offset, member.header.type.bytes);
    }
    bytes = std::make_shared<const std::vector<uint8_t>>(std::move(read));
    cache_->Add(index, bytes);
  }
  LeafData data;
  data.bytes = std::span(*bytes).subspan(member.header.data_offset);
  data.fortran_order = member.header.fortran_order;
  data.owner = std::move(bytes);
  return data;
}

absl::StatusOr<std::optional<base::Json>> NpzFile::Metadata(std::string_view key) const {
  if (key == "config") return config_;
  return std::nullopt;
}

}  // namespace needle::converter
