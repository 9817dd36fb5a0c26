#include "rank/digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <charconv>
#include <fstream>
#include <memory>
#include <vector>

namespace rankcast::rank {

base::Result<Digest> sha256_of_file(const std::string& path) {
  struct Free {
    void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
  };
  const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  bool good = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(std::size_t{1} << 16);
  while (good && file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    good =
        EVP_DigestUpdate(context.get(), block.data(), static_cast<std::size_t>(file.gcount())) == 1;
  }
  Digest digest{};
  if (!good || !file.eof() || EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) != 1) {
    return base::unexpected_failure(ErrorCode::invalid_argument,
                                    "kernel library \"{}\": cannot be read", path);
  }
  return digest;
}

std::string digest_text(const Digest& digest) {
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

base::Result<Digest> parse_digest(std::string_view text) {
  Digest digest{};
  bool good = text.size() == 2 * digest.size();
  for (std::size_t i = 0; i < digest.size() && good; ++i) {
    const char* first = text.data() + 2 * i;
    good = std::from_chars(first, first + 2, digest[i], 16).ptr == first + 2;
  }
  if (!good) {
    return base::unexpected_failure(ErrorCode::internal, "\"{}\" is no SHA-256 digest", text);
  }
  return digest;
}

}  // namespace rankcast::rank
