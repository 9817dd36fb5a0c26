#include "base/own_file.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdlib>
#include <system_error>

namespace rankcast::base {

namespace {

bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) && !std::filesystem::is_directory(path, error);
}

}  // namespace

std::filesystem::path own_folder() {
  Dl_info info{};
  void* map = nullptr;
  const auto* here = reinterpret_cast<const void*>(&own_folder);
  if (dladdr1(here, &info, &map, RTLD_DL_LINKMAP) == 0) return {};
  const char* name = static_cast<const link_map*>(map)->l_name;
  std::error_code error;
  // The main program has no name there, and what dladdr calls it is whatever its caller said.
  if (name == nullptr || *name == '\0') {
    return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  }
  return std::filesystem::absolute(name, error).parent_path();
}

Result<std::string> find_file_from(const std::filesystem::path& from,
                                   std::span<const char* const> folders, const char* name,
                                   const char* what, const char* variable) {
  std::string looked;
  for (const char* folder : folders) {
    const std::filesystem::path file = (from / folder / name).lexically_normal();
    if (is_file(file)) return file.string();
    looked += fmt::format("{}\"{}\"", looked.empty() ? "" : ", ", file.string());
  }
  return unexpected_failure(
      ErrorCode::unsupported,
      "{} not found; looked for {}. Name the file in the environment variable {}", what, looked,
      variable);
}

Result<std::string> find_own_file(std::span<const char* const> folders, const char* name,
                                  const char* what, const char* variable) {
  if (const char* named = std::getenv(variable); named != nullptr && *named != '\0') {
    if (is_file(named)) return std::string(named);
    return unexpected_failure(
        ErrorCode::unsupported,
        "{} not where the environment variable {} says: no file \"{}\"; correct it, "
        "or leave it out",
        what, variable, named);
  }
  return find_file_from(own_folder(), folders, name, what, variable);
}

}  // namespace rankcast::base
