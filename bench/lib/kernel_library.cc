#include "bench/lib/kernel_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "rankcast/error.h"
#include "rankcast/version.h"

namespace rankcast::bench {

namespace {

constexpr const char* kBuiltinFile = "librankcast_kernels.so";

// The folder of the file that contains library_version(): librankcast.so, or a program that is
// linked with the whole library.
std::filesystem::path library_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&library_version), &info) == 0) return ".";
  return std::filesystem::absolute(info.dli_fname).parent_path();
}

}  // namespace

KernelLibrary KernelLibrary::open(const std::string& path) {
  void* opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    throw Error(ErrorCode::unsupported,
                fmt::format("the kernel library cannot be loaded: {}", dlerror()));
  }
  std::shared_ptr<void> handle(opened, [](void* library) { dlclose(library); });
  const auto* table =
      static_cast<const rankcast_kernel_table*>(dlsym(opened, RANKCAST_KERNELS_SYMBOL));
  if (table == nullptr) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{} exports no {}", path, RANKCAST_KERNELS_SYMBOL));
  }
  if (table->abi_version != RANKCAST_KERNEL_ABI_VERSION ||
      table->kernel_size != sizeof(rankcast_kernel)) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{} has kernel ABI {} (entries of {} bytes), this program has {} ({})",
                            path, table->abi_version, table->kernel_size,
                            RANKCAST_KERNEL_ABI_VERSION, sizeof(rankcast_kernel)));
  }
  return KernelLibrary(path, std::move(handle), *table);
}

KernelLibrary KernelLibrary::open_builtin() {
  if (const char* file = std::getenv("RANKCAST_KERNEL_LIBRARY"); file != nullptr) return open(file);
  const std::filesystem::path folder = library_folder();
  for (const char* beside : {".", "../lib", "../../lib"}) {
    const std::filesystem::path file = folder / beside / kBuiltinFile;
    if (std::filesystem::exists(file)) return open(file.lexically_normal().string());
  }
  throw Error(ErrorCode::unsupported, fmt::format("{} is not beside the Rankcast library in {}",
                                                  kBuiltinFile, folder.string()));
}

const rankcast_kernel& KernelLibrary::find(std::string_view name) const {
  for (std::uint32_t i = 0; i < table_->kernel_count; ++i) {
    if (name == table_->kernels[i].name) return table_->kernels[i];
  }
  throw Error(ErrorCode::unsupported, fmt::format("the kernel library {} has no kernel \"{}\"",
                                                  table_->library_name, name));
}

}  // namespace rankcast::bench
