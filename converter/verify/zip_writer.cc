#include "converter/verify/zip_writer.h"

#include <zlib.h>

#include <string_view>

#include "base/endian.h"
#include "base/status_macros.h"

// Names in comments are those of PKWARE's APPNOTE.TXT, 4.3.

namespace needle::verify {
namespace {

constexpr uint16_t kVersionNeeded = 45;  // zip64
constexpr uint16_t kUtf8Names = 1 << 11;
constexpr uint16_t kEarliestDate = (1 << 5) | 1;
constexpr uint32_t kInZip64 = 0xFFFFFFFF;

// Little-endian fields, one after another.
class Fields {
 public:
  template <typename T>
  Fields& Put(T value) {
    const size_t end = bytes_.size();
    bytes_.resize(end + sizeof(T));
    base::StoreLe<T>(bytes_.data() + end, value);
    return *this;
  }
  Fields& PutText(std::string_view text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return *this;
  }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// What the local header and the central directory say alike: from "version needed to extract" to
// "extra field length".
void PutCommon(Fields& fields, const std::string& name, uint32_t crc, uint16_t extra_bytes) {
  fields.Put<uint16_t>(kVersionNeeded).Put<uint16_t>(kUtf8Names).Put<uint16_t>(0);  // stored
  fields.Put<uint16_t>(0).Put<uint16_t>(kEarliestDate).Put<uint32_t>(crc);
  fields.Put<uint32_t>(kInZip64).Put<uint32_t>(kInZip64);
  fields.Put<uint16_t>(static_cast<uint16_t>(name.size())).Put<uint16_t>(extra_bytes);
}

uint32_t Crc(std::initializer_list<std::span<const uint8_t>> parts) {
  uLong crc = crc32_z(0, nullptr, 0);
  for (const auto part : parts) crc = crc32_z(crc, part.data(), part.size());
  return static_cast<uint32_t>(crc);
}

}  // namespace

absl::Status ZipWriter::Append(base::AtomicFile& file, std::span<const uint8_t> bytes) {
  offset_ += bytes.size();
  return file.Append(bytes);
}

absl::Status ZipWriter::Add(base::AtomicFile& file, const std::string& name,
                            std::initializer_list<std::span<const uint8_t>> parts) {
  Member member{.name = name, .crc = Crc(parts), .offset = offset_};
  for (const auto part : parts) member.size += part.size();
  Fields header;
  header.Put<uint32_t>(0x04034b50);  // local file header
  PutCommon(header, name, member.crc, 20);
  header.PutText(name).Put<uint16_t>(1).Put<uint16_t>(16);
  header.Put<uint64_t>(member.size).Put<uint64_t>(member.size);
  RETURN_IF_ERROR(Append(file, header.bytes()));
  for (const auto part : parts) RETURN_IF_ERROR(Append(file, part));
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

absl::Status ZipWriter::Finish(base::AtomicFile& file) {
  const uint64_t start = offset_;
  for (const Member& member : members_) {
    Fields entry;
    entry.Put<uint32_t>(0x02014b50).Put<uint16_t>(kVersionNeeded);  // central directory header
    PutCommon(entry, member.name, member.crc, 28);
    entry.Put<uint16_t>(0).Put<uint16_t>(0).Put<uint16_t>(0).Put<uint32_t>(0).Put<uint32_t>(
        kInZip64);
    entry.PutText(member.name).Put<uint16_t>(1).Put<uint16_t>(24);
    entry.Put<uint64_t>(member.size).Put<uint64_t>(member.size).Put<uint64_t>(member.offset);
    RETURN_IF_ERROR(Append(file, entry.bytes()));
  }
  const uint64_t end = offset_;
  Fields tail;
  tail.Put<uint32_t>(0x06064b50).Put<uint64_t>(44);  // zip64 end of central directory record
  tail.Put<uint16_t>(kVersionNeeded)
      .Put<uint16_t>(kVersionNeeded)
      .Put<uint32_t>(0)
      .Put<uint32_t>(0);
  tail.Put<uint64_t>(members_.size()).Put<uint64_t>(members_.size());
  tail.Put<uint64_t>(end - start).Put<uint64_t>(start);
  tail.Put<uint32_t>(0x07064b50).Put<uint32_t>(0).Put<uint64_t>(end).Put<uint32_t>(1);  // locator
  tail.Put<uint32_t>(0x06054b50).Put<uint16_t>(0).Put<uint16_t>(0);  // end of central directory
  tail.Put<uint16_t>(0xFFFF).Put<uint16_t>(0xFFFF).Put<uint32_t>(kInZip64).Put<uint32_t>(kInZip64);
  tail.Put<uint16_t>(0);
  return Append(file, tail.bytes());
}

}  // namespace needle::verify
