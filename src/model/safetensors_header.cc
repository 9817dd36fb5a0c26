#include "model/safetensors_header.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "rankcast/error.h"
#include "rankcast/shape.h"

namespace rankcast::model {

namespace {

using Json = nlohmann::json;
using Entry = SafetensorsFile::Entry;

constexpr std::string_view kMetadata = "__metadata__";

struct NamedType {
  std::string_view name;
  DType dtype;
};

constexpr std::array<NamedType, kDTypeCount> kTypes{{
    {"F64", DType::f64},
    {"F32", DType::f32},
    {"F16", DType::f16},
    {"BF16", DType::bf16},
    {"I64", DType::i64},
    {"I32", DType::i32},
    {"I16", DType::i16},
    {"I8", DType::i8},
    {"U8", DType::u8},
    {"BOOL", DType::boolean},
}};

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

// One line, not too long: names come from the file.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 100;
  std::size_t shown = std::min(text.size(), kShown);
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; };
  while (shown > 0 && shown < text.size() && continues(text[shown])) --shown;  // whole characters
  std::string result = "\"";
  for (const char c : text.substr(0, shown)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result + (shown < text.size() ? "\"..." : "\"");
}

// Takes the events of the JSON parser; throws at the first that the format does not allow.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(std::uint64_t data_at, std::uint64_t data_bytes)
      : data_at_(data_at), data_bytes_(data_bytes) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override { unexpected(fmt::format("{}", value)); }
  bool number_float(double, const std::string& text) override {
    unexpected("the number " + in_quotes(text));
  }
  bool binary(Json::binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ == Place::shape) {
      add_extent(value);
    } else if (place_ == Place::offsets) {
      if (offset_count_ == 2) refuse_tensor("\"data_offsets\" has more than two numbers");
      offsets_[offset_count_++] = value;
    } else {
      unexpected(fmt::format("{}", value));
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::dtype) {
      dtype_ = dtype_of_name(value);
      place_ = Place::tensor;
    } else if (place_ == Place::metadata_value) {
      header_.metadata.emplace(key_, std::move(value));
      place_ = Place::metadata;
    } else {
      unexpected("the string " + in_quotes(value));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::start) {
      place_ = Place::root;
    } else if (place_ == Place::tensor_start) {
      place_ = Place::tensor;
    } else if (place_ == Place::metadata_start) {
      place_ = Place::metadata;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(std::string& name) override {
    if (place_ == Place::root) {
      if (!names_.insert(name).second) refuse("the name {} is given twice", in_quotes(name));
      if (name == kMetadata) {
        place_ = Place::metadata_start;
      } else {
        start_tensor(std::move(name));
      }
    } else if (place_ == Place::tensor) {
      start_property(name);
    } else {
      if (header_.metadata.contains(name)) {
        refuse("\"__metadata__\" has the key {} twice", in_quotes(name));
      }
      key_ = std::move(name);
      place_ = Place::metadata_value;
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      end_tensor();
      place_ = Place::root;
    } else {
      place_ = place_ == Place::metadata ? Place::root : Place::start;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::shape_start) {
      place_ = Place::shape;
    } else if (place_ == Place::offsets_start) {
      place_ = Place::offsets;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.size(), what.find(": ") + 2));  // its id, line and column
    refuse("the header is not valid JSON at byte {}: {}", position, in_quotes(what));
  }

 private:
  // What was read last, and so what may come next.
  enum class Place {
    start,
    root,
    tensor_start,
    tensor,
    dtype,
    shape_start,
    shape,
    offsets_start,
    offsets,
    metadata_start,
    metadata,
    metadata_value,
  };

  [[noreturn]] void refuse_tensor(std::string_view what) const {
    refuse("tensor {}: {}", in_quotes(name_), what);
  }

  [[noreturn]] void unexpected(std::string_view found) const {
    switch (place_) {
      case Place::tensor_start:
        refuse_tensor(fmt::format("its description must be an object, found {}", found));
      case Place::dtype:
        refuse_tensor(fmt::format("\"dtype\" must be a string, found {}", found));
      case Place::shape_start:
        refuse_tensor(fmt::format("\"shape\" must be an array of integers, found {}", found));
      case Place::shape:
        refuse_tensor(fmt::format("extent {} of \"shape\" must be a positive integer, found {}",
                                  extents_->size(), found));
      case Place::offsets_start:
        refuse_tensor(
            fmt::format("\"data_offsets\" must be an array of two integers, found {}", found));
      case Place::offsets:
        refuse_tensor(fmt::format(
            "number {} of \"data_offsets\" must be an integer that is not negative, found {}",
            offset_count_, found));
      case Place::metadata_start:
        refuse("\"__metadata__\" must be an object of strings, found {}", found);
      case Place::metadata_value:
        refuse("the value of {} in \"__metadata__\" must be a string, found {}", in_quotes(key_),
               found);
      default:
        refuse("the header must be a JSON object, found {}", found);
    }
  }

  void start_tensor(std::string name) {
    name_ = std::move(name);
    dtype_.reset();
    extents_.reset();
    has_offsets_ = false;
    offset_count_ = 0;
    place_ = Place::tensor_start;
  }

  void start_property(std::string_view property) {
    const auto given_once = [&](bool given) {
      if (given) refuse_tensor(fmt::format("\"{}\" is given twice", property));
    };
    if (property == "dtype") {
      given_once(dtype_.has_value());
      place_ = Place::dtype;
    } else if (property == "shape") {
      given_once(extents_.has_value());
      extents_.emplace();
      place_ = Place::shape_start;
    } else if (property == "data_offsets") {
      given_once(has_offsets_);
      has_offsets_ = true;
      place_ = Place::offsets_start;
    } else {
      refuse_tensor(fmt::format("the key {} is none of \"dtype\", \"shape\", \"data_offsets\"",
                                in_quotes(property)));
    }
  }

  DType dtype_of_name(std::string_view name) const {
    for (const NamedType& type : kTypes) {
      if (type.name == name) return type.dtype;
    }
    std::array<std::string_view, kDTypeCount> names;
    std::transform(kTypes.begin(), kTypes.end(), names.begin(),
                   [](const NamedType& type) { return type.name; });
    refuse_tensor(fmt::format("dtype {} is not supported; those supported are {}", in_quotes(name),
                              fmt::join(names, " ")));
  }

  void add_extent(std::uint64_t extent) {
    if (extents_->size() == kMaxDims) {
      refuse_tensor(fmt::format("\"shape\" has more than {} extents", kMaxDims));
    }
    if (extent == 0) {
      refuse_tensor(
          fmt::format("extent {} of \"shape\" is 0; tensors without elements are not supported",
                      extents_->size()));
    }
    if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      refuse_tensor(fmt::format("extent {} of \"shape\" is {}, which is too large",
                                extents_->size(), extent));
    }
    extents_->push_back(static_cast<std::int64_t>(extent));
  }

  void end_tensor() {
    if (!dtype_) refuse_tensor("it has no \"dtype\"");
    if (!extents_) refuse_tensor("it has no \"shape\"");
    if (!has_offsets_) refuse_tensor("it has no \"data_offsets\"");
    if (offset_count_ != 2) {
      refuse_tensor(fmt::format("\"data_offsets\" has {} numbers instead of two", offset_count_));
    }
    const auto [begin, end] = offsets_;
    if (begin > end) {
      refuse_tensor(fmt::format("its data end at {}, before they begin at {}", end, begin));
    }
    if (end > data_bytes_) {
      refuse_tensor(fmt::format("its data end at {}, and the file has only {} bytes of data", end,
                                data_bytes_));
    }
    std::uint64_t bytes = size_bytes(*dtype_);
    for (const std::int64_t extent : *extents_) {
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
        refuse_tensor(fmt::format("its shape [{}] has too many bytes", fmt::join(*extents_, ", ")));
      }
    }
    if (bytes != end - begin) {
      refuse_tensor(fmt::format("{}[{}] has {} bytes, and its \"data_offsets\" span {}",
                                dtype_name(*dtype_), fmt::join(*extents_, ", "), bytes,
                                end - begin));
    }
    header_.entries.push_back(Entry{.name = std::move(name_),
                                    .dtype = *dtype_,
                                    .extents = *std::move(extents_),
                                    .offset_bytes = data_at_ + begin,
                                    .size_bytes = bytes});
  }

  std::uint64_t data_at_;
  std::uint64_t data_bytes_;
  SafetensorsHeader header_;
  std::set<std::string> names_;
  Place place_ = Place::start;

  std::string key_;   // of the metadata's value that is read
  std::string name_;  // and what else is known of the tensor that is read
  std::optional<DType> dtype_;
  std::optional<std::vector<std::int64_t>> extents_;
  std::array<std::uint64_t, 2> offsets_{};
  std::size_t offset_count_ = 0;
  bool has_offsets_ = false;
};

// The tensors, in order, fill the data from the first byte to the last.
void check_coverage(std::span<const Entry> entries, std::uint64_t data_at,
                    std::uint64_t file_bytes) {
  std::uint64_t covered = data_at;
  const Entry* before = nullptr;
  for (const Entry& entry : entries) {
    if (entry.offset_bytes < covered) {
      refuse("the data of the tensors {} and {} overlap", in_quotes(before->name),
             in_quotes(entry.name));
    }
    if (entry.offset_bytes > covered) {
      refuse("{} bytes of data before those of tensor {} belong to no tensor",
             entry.offset_bytes - covered, in_quotes(entry.name));
    }
    covered += entry.size_bytes;
    before = &entry;
  }
  if (covered != file_bytes) {
    refuse("the last {} bytes of the file belong to no tensor", file_bytes - covered);
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file,
                                           std::uint64_t file_bytes) {
  if (file_bytes < kLengthBytes || file.size() < kLengthBytes) {
    refuse("the file has {} bytes, too few for the length of its header", file_bytes);
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  }
  if (length > kMaxHeaderBytes) {
    refuse("the header has {} bytes, more than {}: this is hardly a safetensors file", length,
           kMaxHeaderBytes);
  }
  if (length > file_bytes - kLengthBytes || length > file.size() - kLengthBytes) {
    refuse("the header has {} bytes, and the file ends {} bytes after its length", length,
           file_bytes - kLengthBytes);
  }
  const auto* begin = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  const char* end = begin + length;
  if (begin == end || *begin != '{') {
    refuse("the header does not begin with '{{': this is hardly a safetensors file");
  }
  // The JSON parser takes a NUL for the end of its input, and would not see what follows.
  if (const void* nul = std::memchr(begin, '\0', length)) {
    refuse("the header is not valid JSON at byte {}: a NUL",
           static_cast<const char*>(nul) - begin + 1);
  }
  const std::uint64_t data_at = kLengthBytes + length;
  Reader reader(data_at, file_bytes - data_at);
  Json::sax_parse(begin, end, &reader);
  SafetensorsHeader header = reader.take();
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.offset_bytes, std::string_view(a.name)) <
           std::pair(b.offset_bytes, std::string_view(b.name));
  });
  check_coverage(header.entries, data_at, file_bytes);
  return header;
}

}  // namespace rankcast::model
