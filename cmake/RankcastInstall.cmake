# What `cmake --install` puts into a prefix: the shared library, the built-in kernels beside it, the
# public headers, the command, the program of process ranks, and what find_package and pkg-config read.

include(CMakePackageConfigHelpers)

install(TARGETS rankcast EXPORT rankcast_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET rankcast_kernels)
  install(TARGETS rankcast_kernels LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET rankcast_command)
  install(TARGETS rankcast_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET rankcast_rank)
  install(TARGETS rankcast_rank RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/rankcast DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rankcast)
install(EXPORT rankcast_targets NAMESPACE rankcast:: DESTINATION ${package_dir})
configure_package_config_file(cmake/rankcast-config.cmake.in rankcast-config.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(rankcast-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_BINARY_DIR}/rankcast-config.cmake
  ${CMAKE_BINARY_DIR}/rankcast-config-version.cmake
  DESTINATION ${package_dir})

# The prefix is worked out from where the file lies, so that an installation may be moved.
file(RELATIVE_PATH prefix_from_pkgconfig
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")
configure_file(cmake/rankcast.pc.in rankcast.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rankcast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
