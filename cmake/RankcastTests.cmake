# rankcast_add_test: how a folder of tests/ becomes one GoogleTest program.

enable_testing()
find_package(GTest REQUIRED)
find_package(rapidcheck QUIET CONFIG)

# Everything that a test program links. A library of helpers may link it as well.
add_library(rankcast_test_libraries INTERFACE)
target_link_libraries(rankcast_test_libraries INTERFACE
  rankcast_static GTest::gtest_main GTest::gmock)
if(TARGET rapidcheck)
  target_link_libraries(rankcast_test_libraries INTERFACE rapidcheck)
endif()

# The GoogleTest header is compiled once and shared. GCC accepts a precompiled header only with the
# same code model, so its owner is a program like those that use it; ccache needs the two flags.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(rankcast_test_flags "SHELL:-Xclang -fno-pch-timestamp")
else()
  set(rankcast_test_flags -fpch-preprocess)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    # The library under test is as users get it. What only tests are made of is compiled faster, and
    # spared the false alarms about strings that g++ 12 gives at -O3 (its bug 105651).
    list(APPEND rankcast_test_flags -O1)
  endif()
endif()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_header.cc CONTENT "")
add_executable(rankcast_test_header EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/test_header.cc)
target_link_libraries(rankcast_test_header PRIVATE rankcast_test_libraries)
target_compile_options(rankcast_test_header PRIVATE ${rankcast_test_flags})
set_target_properties(rankcast_test_header PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/CMakeFiles)
target_precompile_headers(rankcast_test_header PRIVATE <gmock/gmock.h> <gtest/gtest.h>)

# rankcast_add_test(<name> SOURCES a_test.cc ... [LIBRARIES target ...])
#   target test_<name>, program bin/tests/<name>, linked with the whole library, GoogleTest's main,
#   gmock and, where it is installed, RapidCheck. Files of tests/ are included from its root.
#   The program finds librankcast_kernels.so through RANKCAST_TEST_KERNELS, an absolute path.
function(rankcast_add_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "rankcast_add_test(${name}): SOURCES is empty, or unknown words: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target test_${name})
  add_executable(${target} ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/tests)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} rankcast_test_libraries)
  target_compile_options(${target} PRIVATE ${rankcast_test_flags})
  target_precompile_headers(${target} REUSE_FROM rankcast_test_header)
  if(TARGET rankcast_kernels)
    target_compile_definitions(${target} PRIVATE RANKCAST_TEST_KERNELS="$<TARGET_FILE:rankcast_kernels>")
    add_dependencies(${target} rankcast_kernels)
  endif()
  if(TARGET rankcast_rank)
    add_dependencies(${target} rankcast_rank)
  endif()
  add_test(NAME ${name} COMMAND ${target})
endfunction()
