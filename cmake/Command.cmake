# The command `paddle`. It holds the library itself, so that it runs wherever an installer puts it.

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/*.c")
if(sources)
  add_executable(paddle_command ${sources})
  set_target_properties(paddle_command PROPERTIES
    OUTPUT_NAME paddle
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  target_include_directories(paddle_command PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(paddle_command PRIVATE paddle_archive pd_warnings)
  if(SKBUILD)
    install(TARGETS paddle_command RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}")
  else()
    install(TARGETS paddle_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endif()
