#include "device/device_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

namespace rankcast::device {

namespace {

constexpr std::string_view kAccepted =
    "groups [kind:]n[-m][?key=value[&key=value]...], separated by commas, such as \"cpu:0-7\" or "
    "\"0,1,null:0-3?delay_us=50\"";

constexpr std::int32_t kMaxOrdinal = std::numeric_limits<std::int32_t>::max();

// Bounds what is made of it: options are copied to every device of their group.
constexpr std::size_t kMaxListBytes = 65'536;

// Not those of <cctype>, which ask the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
constexpr bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }
constexpr bool is_value(char c) {
  return c > ' ' && c < '\x7f' && c != ',' && c != '&' && c != '?';
}

// Quoted for a message: one line of printable characters.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 120;
  std::string shown = "\"";
  for (const char c : text.substr(0, kShown)) {
    if (c == '"' || c == '\\') {
      shown += '\\';
      shown += c;
    } else if (c >= ' ' && c < '\x7f') {
      shown += c;
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return shown + (text.size() > kShown ? "\"..." : "\"");
}

class Parser {
 public:
  explicit Parser(std::string_view list) : list_(list) {}

  base::Result<std::vector<DeviceSpec>> parse() {
    if (list_.size() > kMaxListBytes) {
      return fail(kMaxListBytes, fmt::format("the list has {} characters, more than {}",
                                             list_.size(), kMaxListBytes));
    }
    skip_blanks();
    if (at_end()) return fail(at_, "no device is named");
    for (;;) {
      if (base::Status status = group(); !status.ok()) return tl::unexpected(std::move(status));
      skip_blanks();
      if (at_end()) return std::move(devices_);
      if (peek() != ',') return fail(at_, fmt::format("expected ',' or the end, {}", found()));
      ++at_;
      skip_blanks();
    }
  }

 private:
  // Where a range was written, and what it names.
  struct Range {
    std::size_t begin;
    std::int64_t first;
    std::int64_t last;
  };

  base::Status group() {
    const std::size_t begin = at_;
    if (!at_end() && is_letter(peek())) {
      kind_ = word();
      if (at_end() || peek() != ':') {
        return failure(at_, fmt::format("expected ':' and a number after the kind {}, {}",
                                        in_quotes(kind_), found()));
      }
      ++at_;
    }
    base::Result<std::int32_t> first = ordinal();
    if (!first) return std::move(first).error();
    Range range{.begin = begin, .first = *first, .last = *first};
    if (!at_end() && peek() == '-') {
      const std::size_t last_at = ++at_;
      base::Result<std::int32_t> last = ordinal();
      if (!last) return std::move(last).error();
      range.last = *last;
      if (*last < *first) {
        return failure(last_at, fmt::format("the range {}-{} runs backwards", *first, *last));
      }
    }
    std::vector<DeviceOption> options;
    if (!at_end() && peek() == '?') {
      do {
        const std::size_t option_at = ++at_;
        base::Result<DeviceOption> made = option();
        if (!made) return std::move(made).error();
        const auto same_key = [&made](const DeviceOption& other) { return other.key == made->key; };
        if (std::any_of(options.begin(), options.end(), same_key)) {
          return failure(option_at,
                         fmt::format("the option {} is given twice", in_quotes(made->key)));
        }
        options.push_back(*std::move(made));
      } while (!at_end() && peek() == '&');
    }
    return add(range, options);
  }

  // Checks before anything is made of it: a range may name 2^31 devices.
  base::Status add(const Range& range, const std::vector<DeviceOption>& options) {
    const auto count = static_cast<std::uint64_t>(range.last - range.first) + 1;
    if (count > kMaxDevices - devices_.size()) {
      return failure(range.begin, fmt::format("with this group the list names {} devices, more "
                                              "than the {} that a mesh can have",
                                              devices_.size() + count, kMaxDevices));
    }
    for (std::int64_t i = range.first; i <= range.last; ++i) {
      const auto ordinal = static_cast<std::int32_t>(i);
      const auto [earlier, fresh] = columns_.try_emplace({kind_, ordinal}, range.begin + 1);
      if (!fresh) {
        return failure(range.begin, fmt::format("{}:{} is named already, in column {}", kind_,
                                                ordinal, earlier->second));
      }
      devices_.push_back({.kind = kind_, .ordinal = ordinal, .options = options});
    }
    return {};
  }

  base::Result<std::int32_t> ordinal() {
    const std::size_t begin = at_;
    while (!at_end() && is_digit(peek())) ++at_;
    if (at_ == begin) {
      return fail(at_, fmt::format("expected the number of a device, {}", found()));
    }
    std::int32_t number = 0;
    const auto [end, code] = std::from_chars(list_.data() + begin, list_.data() + at_, number);
    if (code != std::errc{}) {
      return fail(begin, fmt::format("the number {} is larger than {}",
                                     in_quotes(list_.substr(begin, at_ - begin)), kMaxOrdinal));
    }
    return number;
  }

  base::Result<DeviceOption> option() {
    if (at_end() || !is_letter(peek())) {
      return fail(at_, fmt::format("expected the key of an option, {}", found()));
    }
    DeviceOption made{.key = word(), .value = {}};
    if (at_end() || peek() != '=') {
      return fail(at_, fmt::format("expected '=' and a value after the option {}, {}",
                                   in_quotes(made.key), found()));
    }
    const std::size_t value_at = ++at_;
    while (!at_end() && is_value(peek())) ++at_;
    if (at_ == value_at) {
      return fail(
          at_, fmt::format("expected a value for the option {}, {}", in_quotes(made.key), found()));
    }
    made.value = list_.substr(value_at, at_ - value_at);
    return made;
  }

  std::string word() {
    const std::size_t begin = at_;
    while (!at_end() && is_word(peek())) ++at_;
    return std::string(list_.substr(begin, at_ - begin));
  }

  bool at_end() const { return at_ == list_.size(); }
  char peek() const { return list_[at_]; }
  void skip_blanks() {
    while (!at_end() && is_blank(peek())) ++at_;
  }

  std::string found() const {
    return at_end() ? "found the end" : "found " + in_quotes(list_.substr(at_, 1));
  }

  base::Status failure(std::size_t at, std::string_view what) const {
    // The whole list, or the part of a long one in which the fault lies.
    const std::size_t from = list_.size() > 100 && at > 60 ? at - 60 : 0;
    return base::failure(ErrorCode::invalid_argument,
                         "device list {}{}, column {}: {}; accepted are {}", from > 0 ? "..." : "",
                         in_quotes(list_.substr(from)), at + 1, what, kAccepted);
  }
  tl::unexpected<base::Status> fail(std::size_t at, std::string_view what) const {
    return tl::unexpected(failure(at, what));
  }

  std::string_view
      list_;  // borrowed from the caller of parse_device_list, which outlives the parser
  std::size_t at_ = 0;
  std::string kind_ = "cpu";
  std::vector<DeviceSpec> devices_;
  std::map<std::pair<std::string, std::int32_t>, std::size_t> columns_;  // of each device's group
};

}  // namespace

std::string DeviceSpec::name() const { return fmt::format("{}:{}", kind, ordinal); }

std::string DeviceSpec::to_string() const {
  std::string text = name();
  char separator = '?';
  for (const DeviceOption& option : options) {
    text += fmt::format("{}{}={}", separator, option.key, option.value);
    separator = '&';
  }
  return text;
}

base::Result<std::vector<DeviceSpec>> parse_device_list(std::string_view list) {
  return Parser(list).parse();
}

}  // namespace rankcast::device
