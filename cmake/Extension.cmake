# The CPython extension paddle._core, built once for every Python from 3.11 on (the limited API). CMake 3.25 has no
# component for that, so the macro and the file's suffix are set here.

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/ext/*.c")
if(sources)
  Python_add_library(paddle_extension MODULE ${sources})
  set_target_properties(paddle_extension PROPERTIES
    OUTPUT_NAME _core
    PREFIX ""
    SUFFIX ".abi3.so"
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/paddle"
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN/_lib")
  target_compile_definitions(paddle_extension PRIVATE Py_LIMITED_API=0x030B0000)
  target_link_libraries(paddle_extension PRIVATE paddle pd_flags pd_warnings)
  if(SKBUILD)
    install(TARGETS paddle_extension LIBRARY DESTINATION paddle)
  endif()
endif()

# In the build folder, python/paddle is the package as it would be installed, made of links to the source tree:
# with build/python on its path, Python runs what is being edited.
if(NOT SKBUILD)
  add_custom_target(paddle_python_tree ALL
    COMMAND "${CMAKE_COMMAND}" "-DFROM=${PROJECT_SOURCE_DIR}/python/paddle" "-DTO=${PROJECT_BINARY_DIR}/python/paddle"
      -P "${PROJECT_SOURCE_DIR}/cmake/LinkTree.cmake"
    COMMAND "${CMAKE_COMMAND}" -E create_symlink "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/python/paddle/include"
    COMMENT "Linking the Python files" VERBATIM)
endif()
