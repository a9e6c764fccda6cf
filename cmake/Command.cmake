# The command `paddle`, linked against the shared library: the engine is there once. Where the library lies is known
# relative to the command only: an installer may put both anywhere, and a virtual environment may be moved.

file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/*.c")
if(sources)
  add_executable(paddle_command ${sources})
  if(SKBUILD)
    # bin/paddle beside lib/python3.X/site-packages/paddle/_lib: every Python that the wheel may meet (it is built once
    # for all), Debian's dist-packages, lib64, and the flat folder of `pip install --target`.
    set(rpath "$ORIGIN/../paddle/_lib")
    foreach(minor RANGE 11 30)
      foreach(lib lib lib64)
        foreach(packages site-packages dist-packages)
          list(APPEND rpath "$ORIGIN/../${lib}/python3.${minor}/${packages}/paddle/_lib")
        endforeach()
      endforeach()
    endforeach()
  else()
    # The build folder, and an installation by cmake.
    set(rpath "$ORIGIN/../python/paddle/_lib" "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  endif()
  set_target_properties(paddle_command PROPERTIES
    OUTPUT_NAME paddle
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "${rpath}")
  target_include_directories(paddle_command PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(paddle_command PRIVATE paddle pd_flags pd_warnings)
  if(SKBUILD)
    install(TARGETS paddle_command RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}")
  else()
    install(TARGETS paddle_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endif()
