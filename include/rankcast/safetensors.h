// The safetensors file format (8-byte little-endian header length, a JSON header, then the data),
// read by mmap. Format: https://github.com/huggingface/safetensors#format
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rankcast/api.h"
#include "rankcast/host_view.h"
#include "rankcast/mesh.h"

namespace rankcast {

/// An open safetensors file. Move-only; views point into its mapping and die with it. Reading is
/// thread-safe. The file must not be shortened while it is open: the system ends a process (SIGBUS)
/// that reads what is gone.
class RANKCAST_API SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> extents;  ///< Empty for a scalar of the file.
    std::uint64_t offset_bytes = 0;     ///< From the start of the file.
    std::uint64_t size_bytes = 0;
  };

  /// Maps the file and checks its whole header. Throws `Error(invalid_argument)` naming the file
  /// and what is wrong: not readable, shorter than its header says, header that is not a JSON
  /// object, a dtype nobody has, an extent that is not a positive integer, offsets that overlap,
  /// leave gaps, leave the file or contradict the shape, a name given twice.
  static SafetensorsFile open(const std::string& path);

  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const;
  /// In the order of their data.
  std::span<const Entry> entries() const;
  /// Null when there is none of that name.
  const Entry* find(std::string_view name) const;
  /// The header's "__metadata__".
  const std::map<std::string, std::string>& metadata() const;
  /// The tensor's bytes. A scalar of the file has shape [1]. Throws `Error(invalid_argument)` when
  /// the data are not aligned to the dtype (`read` copies such a tensor).
  HostView view(const Entry& entry) const;
  /// True when `view` would not throw.
  bool aligned(const Entry& entry) const;
  /// The tensor's raw bytes, aligned or not.
  std::span<const std::byte> bytes(const Entry& entry) const;

 private:
  struct Impl;
  explicit SafetensorsFile(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

/// A tensor of a file, resident: one replica a rank, of shape `[ranks, extents...]`.
struct ResidentTensor {
  std::string name;
  StackedDeviceTensor tensor;
};

/// Puts every tensor of the file on every rank, in the order of `entries()`. Unaligned data are
/// copied on the way. Throws what `Mesh::alloc_replicated` throws, naming the tensor; what was
/// allocated before is freed then.
RANKCAST_API std::vector<ResidentTensor> load_replicated(Mesh& mesh, const SafetensorsFile& file);

}  // namespace rankcast
