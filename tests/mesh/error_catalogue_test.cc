// docs/errors.md says what each failure says: every message in it is produced here, and every one
// that is produced here is in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "mesh/induced_failures.h"

namespace rankcast::test {
namespace {

constexpr const char* kNoError = "no error";

/// Parts that differ from run to run and from machine to machine, as the top of the file says.
std::string with_stand_ins(std::string message) {
  const std::pair<const char*, const char*> rules[] = {
      {"\"/[^\"]*\"", "\"<path>\""},
      {R"((^|[ (])/[^ :,;)]*)", "$1<path>"},
      {"[0-9a-f]{64}", "<digest>"},
      {R"([0-9]+\.[0-9] (us|ms|s)\b)", "<time>"},
      {"process [0-9]+", "process <id>"},
      {"incarnation [0-9]+, this is [0-9]+", "incarnation <number>, this is <number>"},
  };
  for (const auto& [pattern, stand_in] : rules) {
    message = std::regex_replace(message, std::regex(pattern), stand_in);
  }
  return message;
}

/// The messages of the file: by code, then by title.
using Catalogue = std::map<std::string, std::map<std::string, std::string>>;

Catalogue read_catalogue() {
  Catalogue catalogue;
  std::ifstream file(RANKCAST_TEST_DOCS "/errors.md");
  std::string code;
  std::string title;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) {
      code = line.substr(3);
      std::erase(code, '`');
      catalogue[code];
      title.clear();
    } else if (line.starts_with("### ")) {
      title = line.substr(4);
      catalogue[code][title];
    } else if (line.starts_with("    ") && !title.empty()) {
      catalogue[code][title] += line.substr(4);
    }
  }
  return catalogue;
}

std::string section_of(const Induced& induced) {
  return induced.code ? std::string(error_code_name(*induced.code)) : kNoError;
}

TEST(ErrorCatalogue, EveryFailureSaysWhatTheFileSays) {
  const Catalogue catalogue = read_catalogue();
  for (const Induced& induced : induced_failures()) {
    std::string message;
    std::optional<ErrorCode> code;
    try {
      message = induced.fail();
    } catch (const Error& error) {
      code = error.code();
      message = error.what();
    }
    EXPECT_EQ(code, induced.code) << induced.title << ": " << message;
    const auto section = catalogue.find(section_of(induced));
    const bool listed = section != catalogue.end() && section->second.contains(induced.title);
    EXPECT_EQ(listed ? section->second.at(induced.title) : "nothing", with_stand_ins(message))
        << "docs/errors.md, section " << section_of(induced) << ", has this of \"" << induced.title
        << "\"";
  }
}

TEST(ErrorCatalogue, NothingIsInTheFileThatIsNotProduced) {
  std::set<std::pair<std::string, std::string>> produced;
  for (const Induced& induced : induced_failures()) {
    EXPECT_TRUE(produced.emplace(section_of(induced), induced.title).second)
        << induced.title << " twice";
  }
  for (const auto& [section, messages] : read_catalogue()) {
    for (const auto& [title, message] : messages) {
      EXPECT_TRUE(produced.contains({section, title})) << section << ": " << title;
      EXPECT_NE(message, "") << section << ": " << title;
    }
  }
}

TEST(ErrorCatalogue, EveryCodeHasASection) {
  const Catalogue catalogue = read_catalogue();
  for (int code = 1; code <= static_cast<int>(ErrorCode::internal); ++code) {
    EXPECT_TRUE(catalogue.contains(std::string(error_code_name(static_cast<ErrorCode>(code)))));
  }
}

TEST(ErrorCatalogue, StandInsAreWhatVaries) {
  EXPECT_EQ(with_stand_ins("run 7 left \"/a/b c\" and /x/y.so: 12.5 ms, process 99 (process 1)"),
            "run 7 left \"<path>\" and <path>: <time>, process <id> (process <id>)");
  EXPECT_EQ(with_stand_ins("f32[2, 4] and/or 3 s"), "f32[2, 4] and/or 3 s");
}

}  // namespace
}  // namespace rankcast::test
