# Flags that every target of this project shares, and the helpers its folders call.

add_library(rankcast_flags INTERFACE)
target_compile_options(rankcast_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(rankcast_flags INTERFACE -Wthread-safety)
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  target_compile_options(rankcast_flags INTERFACE -march=x86-64-v3)
endif()

# rankcast_sources(file...): adds the sources of one folder of src/ to the library.
function(rankcast_sources)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(rankcast_static PRIVATE ${ARGN})
endfunction()
