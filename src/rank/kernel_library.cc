#include "rank/kernel_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/own_file.h"

namespace rankcast::rank {
namespace {

constexpr const char* kBuiltinFile = "librankcast_kernels.so";
constexpr const char* kBuiltinVariable = "RANKCAST_KERNEL_LIBRARY";
constexpr const char* kBuiltinWhat = "the built-in kernels were";
constexpr std::array kBuiltinFolders{"", "../lib", "../../lib"};

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

template <class... Args>
base::Status fault(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
  return base::failure(ErrorCode::invalid_argument, "kernel library \"{}\": {}", path,
                       fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

bool is_kernel_name(std::string_view name) noexcept {
  if (name.empty() || name.front() == '.' || name.back() == '.') return false;
  if (name.find('.') == std::string_view::npos || name.find("..") != std::string_view::npos) {
    return false;
  }
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return c == '.' || is_name_character(c); });
}

base::Result<KernelLibrary> KernelLibrary::open(const std::string& path,
                                                const std::optional<Digest>& expected) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(path, error);
  if (path.empty() || !std::filesystem::exists(file, error)) {
    return tl::unexpected(fault(path, "no such file"));
  }
  // Else a pipe or a device would be read for ever.
  if (!std::filesystem::is_regular_file(file, error)) {
    return tl::unexpected(fault(path, "is no regular file"));
  }
  const auto digest = sha256_of_file(path);
  if (!digest) return tl::unexpected(digest.error());
  if (expected && *digest != *expected) {
    return tl::unexpected(fault(path,
                                "has the SHA-256 digest {}, but {} was loaded by the host: the "
                                "file has changed; put the old one back, or close the mesh and "
                                "open another",
                                digest_text(*digest), digest_text(*expected)));
  }
  // An absolute path keeps dlopen from searching its own folders.
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return tl::unexpected(fault(path, "cannot be loaded: {}", dlerror()));
  }
  KernelLibrary library(handle, path);
  library.digest_ = *digest;
  base::Status status = library.read_table();
  if (!status.ok()) return tl::unexpected(std::move(status));
  return library;
}

KernelLibrary::KernelLibrary(void* handle, std::string path) noexcept
    : handle_(handle), path_(std::move(path)) {}

KernelLibrary::~KernelLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

KernelLibrary::KernelLibrary(KernelLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      path_(std::move(other.path_)),
      digest_(other.digest_),
      title_(std::move(other.title_)),
      kernels_(std::move(other.kernels_)) {}

KernelLibrary& KernelLibrary::operator=(KernelLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(path_, other.path_);
  std::swap(digest_, other.digest_);
  std::swap(title_, other.title_);
  std::swap(kernels_, other.kernels_);
  return *this;
}

base::Status KernelLibrary::read_table() {
  const void* symbol = dlsym(handle_, RANKCAST_KERNELS_SYMBOL);
  if (symbol == nullptr) {
    return fault(path_, "exports no symbol {}: is it a kernel library?", RANKCAST_KERNELS_SYMBOL);
  }
  const auto& table = *static_cast<const rankcast_kernel_table*>(symbol);
  // The version is read first: of another one nothing more is known.
  if (table.abi_version != RANKCAST_KERNEL_ABI_VERSION) {
    return fault(
        path_,
        "has kernel ABI version {}, but this Rankcast runs version {}: rebuild it with the "
        "rankcast/kernel_abi.h of this one",
        table.abi_version, RANKCAST_KERNEL_ABI_VERSION);
  }
  if (table.struct_size < sizeof(rankcast_kernel_table) ||
      table.kernel_size < sizeof(rankcast_kernel)) {
    return fault(path_, "its table has {} bytes and its kernels {}, but version {} has {} and {}",
                 table.struct_size, table.kernel_size, RANKCAST_KERNEL_ABI_VERSION,
                 sizeof(rankcast_kernel_table), sizeof(rankcast_kernel));
  }
  if (table.kernel_count == 0 || table.kernels == nullptr) {
    return fault(path_, "its table has no kernels");
  }
  title_ = fmt::format("{} {}", table.library_name != nullptr ? table.library_name : "unnamed",
                       table.library_version != nullptr ? table.library_version : "0");
  for (std::uint32_t index = 0; index < table.kernel_count; ++index) {
    base::Status status = read_kernel(table, index);
    if (!status.ok()) return status;
  }
  return {};
}

base::Status KernelLibrary::read_kernel(const rankcast_kernel_table& table, std::uint32_t index) {
  // The distance between entries is the library's to say: a later header may have more fields.
  const auto* bytes = reinterpret_cast<const std::byte*>(table.kernels);
  rankcast_kernel kernel;
  std::memcpy(&kernel, bytes + std::size_t{table.kernel_size} * index, sizeof(kernel));
  if (kernel.struct_size < sizeof(kernel) || kernel.struct_size > table.kernel_size) {
    return fault(path_, "kernel {} says that it has {} bytes, but the table says {}", index,
                 kernel.struct_size, table.kernel_size);
  }
  if (kernel.name == nullptr) return fault(path_, "kernel {} has no name", index);
  if (!is_kernel_name(kernel.name)) {
    return fault(path_,
                 "kernel {} has the name \"{}\": lower-case letters, digits and '_' are allowed, "
                 "with a '.' between the library's and the kernel's name",
                 index, kernel.name);
  }
  const auto same_name = [&](const rankcast_kernel& earlier) {
    return std::string_view(earlier.name) == kernel.name;
  };
  if (std::any_of(kernels_.begin(), kernels_.end(), same_name)) {
    return fault(path_, "kernel {} has the name \"{}\" of an earlier one", index, kernel.name);
  }
  if (kernel.run == nullptr) {
    return fault(path_, "kernel {} (\"{}\") has no run function", index, kernel.name);
  }
  kernels_.push_back(kernel);
  return {};
}

base::Result<std::string> builtin_kernel_library_path() {
  return base::find_own_file(kBuiltinFolders, kBuiltinFile, kBuiltinWhat, kBuiltinVariable);
}

base::Result<std::string> builtin_kernel_library_from(const std::filesystem::path& folder) {
  return base::find_file_from(folder, kBuiltinFolders, kBuiltinFile, kBuiltinWhat,
                              kBuiltinVariable);
}

}  // namespace rankcast::rank
