#include "rankcast/version.h"

#include <gtest/gtest.h>

#include <string>

namespace rankcast {
namespace {

TEST(VersionTest, LibraryAndHeadersAgree) {
  EXPECT_STREQ(library_version(), RANKCAST_VERSION_STRING);
  EXPECT_EQ(std::string(RANKCAST_VERSION_STRING), std::to_string(RANKCAST_VERSION_MAJOR) + "." +
                                                      std::to_string(RANKCAST_VERSION_MINOR) + "." +
                                                      std::to_string(RANKCAST_VERSION_PATCH));
}

}  // namespace
}  // namespace rankcast
