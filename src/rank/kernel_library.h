// A kernel library that is loaded into this process (rankcast/kernel_abi.h).
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "rank/digest.h"
#include "rankcast/kernel_abi.h"

namespace rankcast::rank {

/// "library.kernel": lower-case letters, digits and '_', at least two parts with a '.' between,
/// none of them empty.
bool is_kernel_name(std::string_view name) noexcept;

/// Owns the loaded file; unloads it on destruction, after which its kernels, their states and their
/// names must not be touched. Movable; a moved-from library is only good for destruction and
/// assignment. No thread rules beyond those of any value.
class KernelLibrary {
 public:
  /// Loads `path` (never searched for in the loader's folders) and reads its table. Runs the
  /// library's constructors. Fails with `invalid_argument` and then leaves nothing loaded: no such
  /// file, no shared library, no table, another ABI version, structs smaller than version 1 has
  /// them, a kernel without a name, with a malformed one, with the name of an earlier one, or
  /// without `run`; and, before anything of it is loaded, for a file with another digest than
  /// `expected`. The text names the file, and the kernel where there is one. Reads the file whole.
  static base::Result<KernelLibrary> open(const std::string& path,
                                          const std::optional<Digest>& expected = std::nullopt);

  ~KernelLibrary();
  KernelLibrary(KernelLibrary&& other) noexcept;
  KernelLibrary& operator=(KernelLibrary&& other) noexcept;
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  /// As given to open.
  const std::string& path() const noexcept { return path_; }
  /// Of the file when it was opened.
  const Digest& digest() const noexcept { return digest_; }
  /// What the library calls itself and its version: "rankcast 0.1.0".
  const std::string& title() const noexcept { return title_; }
  /// At least one, in the order of the table; fields that the library's own header lacks are null.
  std::span<const rankcast_kernel> kernels() const noexcept { return kernels_; }

 private:
  KernelLibrary(void* handle, std::string path) noexcept;

  /// Fills title_ and kernels_.
  base::Status read_table();
  base::Status read_kernel(const rankcast_kernel_table& table, std::uint32_t index);

  void* handle_ = nullptr;  // of dlopen; null when moved from
  std::string path_;
  Digest digest_{};
  std::string title_;
  std::vector<rankcast_kernel> kernels_;  // copies; what they point at belongs to the library
};

/// Where the built-in kernels are: the file that the environment variable RANKCAST_KERNEL_LIBRARY
/// names, else `librankcast_kernels.so` beside the library or program that this code is part of, or
/// in `../lib` or `../../lib` from there. Fails with `unsupported`, listing where it looked.
base::Result<std::string> builtin_kernel_library_path();

/// The part of that search that starts from a folder.
base::Result<std::string> builtin_kernel_library_from(const std::filesystem::path& folder);

}  // namespace rankcast::rank
