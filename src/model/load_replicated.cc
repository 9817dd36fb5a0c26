#include <fmt/core.h>

#include <cstring>
#include <utility>
#include <vector>

#include "rankcast/error.h"
#include "rankcast/safetensors.h"

namespace rankcast {

namespace {

/// Tensors that are freed again unless they are taken.
class Loaded {
 public:
  explicit Loaded(Mesh& mesh) : mesh_(mesh) {}
  ~Loaded() {
    for (const ResidentTensor& resident : tensors_) {
      try {
        mesh_.free(resident.tensor);
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a closed mesh has freed everything
      }
    }
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  void reserve(std::size_t count) { tensors_.reserve(count); }
  /// Never allocates within what was reserved.
  void add(std::string name, StackedDeviceTensor tensor) {
    tensors_.push_back({.name = std::move(name), .tensor = std::move(tensor)});
  }
  std::vector<ResidentTensor> take() { return std::exchange(tensors_, {}); }

 private:
  Mesh& mesh_;  // borrowed from the caller of load_replicated, which outlives it
  std::vector<ResidentTensor> tensors_;
};

/// The entry's data where they are, or copied to `buffer` when they are not aligned there.
HostView readable(const SafetensorsFile& file, const SafetensorsFile::Entry& entry,
                  std::vector<std::byte>& buffer) {
  if (file.aligned(entry)) return file.view(entry);
  const std::span<const std::byte> data = file.bytes(entry);
  buffer.assign(data.begin(), data.end());  // the allocator aligns to 16 bytes, twice any dtype's
  const Shape shape =
      entry.extents.empty() ? Shape{1} : Shape(std::span<const std::int64_t>(entry.extents));
  return HostView(static_cast<const void*>(buffer.data()), entry.dtype, shape);
}

}  // namespace

std::vector<ResidentTensor> load_replicated(Mesh& mesh, const SafetensorsFile& file) {
  Loaded loaded(mesh);
  loaded.reserve(file.entries().size());
  std::vector<std::byte> buffer;
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    std::string name = entry.name;
    if (entry.extents.size() == static_cast<std::size_t>(kMaxDims)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("tensor \"{}\" of safetensors file \"{}\" has {} dimensions; one "
                              "replica a rank adds one, so at most {} can be loaded",
                              entry.name, file.path(), kMaxDims, kMaxDims - 1));
    }
    try {
      loaded.add(std::move(name), mesh.alloc_replicated(readable(file, entry, buffer)));
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("tensor \"{}\" of safetensors file \"{}\": {}", entry.name,
                              file.path(), error.what()),
                  error.fields());
    }
  }
  return loaded.take();
}

}  // namespace rankcast
