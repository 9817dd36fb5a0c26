#include "rankcast/safetensors.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "model/safetensors_header.h"
#include "rankcast/error.h"
#include "rankcast/shape.h"

namespace rankcast {

namespace {

[[noreturn]] void refuse(const std::string& path, std::string_view what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("safetensors file \"{}\": {}", path, what));
}

[[noreturn]] void refuse_system(const std::string& path, std::string_view what, int error) {
  refuse(path, fmt::format("{}: {}", what, std::generic_category().message(error)));
}

/// Owns a read-only mapping of a whole file.
class FileMapping {
 public:
  explicit FileMapping(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (descriptor < 0) refuse_system(path, "cannot be opened", errno);
    struct stat status{};
    const int stat_error = ::fstat(descriptor, &status) == 0 ? 0 : errno;
    const bool regular = stat_error == 0 && S_ISREG(status.st_mode);
    int map_error = 0;
    if (regular && status.st_size > 0) {
      const auto size = static_cast<std::size_t>(status.st_size);
      void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
      if (at == MAP_FAILED) {
        map_error = errno;
      } else {
        bytes_ = {static_cast<const std::byte*>(at), size};
      }
    }
    ::close(descriptor);
    if (stat_error != 0) refuse_system(path, "cannot be examined", stat_error);
    if (!regular) refuse(path, "it is not a regular file");
    if (map_error != 0) refuse_system(path, "cannot be mapped", map_error);
  }
  ~FileMapping() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;  // empty for an empty file, which cannot be mapped
};

Shape shape_of(const SafetensorsFile::Entry& entry) {
  return entry.extents.empty() ? Shape{1} : Shape(std::span<const std::int64_t>(entry.extents));
}

}  // namespace

struct SafetensorsFile::Impl {
  explicit Impl(const std::string& path_given) : path(path_given), mapping(path_given) {}

  std::string path;
  FileMapping mapping;
  model::SafetensorsHeader header;
  std::unordered_map<std::string_view, std::size_t> index;  // of header.entries, by name
};

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  auto impl = std::make_unique<Impl>(path);
  try {
    impl->header =
        model::parse_safetensors_header(impl->mapping.bytes(), impl->mapping.bytes().size());
  } catch (const Error& error) {
    refuse(path, error.what());
  }
  const std::vector<Entry>& all = impl->header.entries;
  impl->index.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) impl->index.emplace(all[i].name, i);
  return SafetensorsFile(std::move(impl));
}

SafetensorsFile::SafetensorsFile(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept = default;

const std::string& SafetensorsFile::path() const { return impl_->path; }

std::span<const SafetensorsFile::Entry> SafetensorsFile::entries() const {
  return impl_->header.entries;
}

const SafetensorsFile::Entry* SafetensorsFile::find(std::string_view name) const {
  const auto found = impl_->index.find(name);
  return found == impl_->index.end() ? nullptr : &impl_->header.entries[found->second];
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return impl_->header.metadata;
}

std::span<const std::byte> SafetensorsFile::bytes(const Entry& entry) const {
  const std::span<const std::byte> file = impl_->mapping.bytes();
  // Entries are values that the caller may have changed or taken from another file.
  if (entry.offset_bytes > file.size() || entry.size_bytes > file.size() - entry.offset_bytes) {
    refuse(impl_->path,
           fmt::format("entry \"{}\" with {} bytes at {} is not of this file, which has {}",
                       entry.name, entry.size_bytes, entry.offset_bytes, file.size()));
  }
  return file.subspan(entry.offset_bytes, entry.size_bytes);
}

bool SafetensorsFile::aligned(const Entry& entry) const {
  const std::size_t alignment = size_bytes(entry.dtype);
  return alignment != 0 && reinterpret_cast<std::uintptr_t>(bytes(entry).data()) % alignment == 0;
}

HostView SafetensorsFile::view(const Entry& entry) const {
  const std::span<const std::byte> data = bytes(entry);
  const Shape shape = shape_of(entry);
  if (shape.size_bytes(entry.dtype) != data.size()) {
    refuse(impl_->path, fmt::format("entry \"{}\" with {} bytes is not of this file: {}{} has {}",
                                    entry.name, data.size(), dtype_name(entry.dtype),
                                    shape.to_string(), shape.size_bytes(entry.dtype)));
  }
  if (!aligned(entry)) {
    refuse(impl_->path,
           fmt::format("the data of tensor \"{}\" begin at byte {}, no multiple of the {} bytes of "
                       "{}; copy those that bytes() gives",
                       entry.name, entry.offset_bytes, size_bytes(entry.dtype),
                       dtype_name(entry.dtype)));
  }
  return HostView(data.data(), entry.dtype, shape);
}

}  // namespace rankcast
