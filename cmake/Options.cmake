# Every choice a builder has, and the names of upstream's that no longer choose anything.

option(WITH_PYTHON "Build the Python extension paddle._core" ON)
option(WITH_DISTRIBUTE "Build the network and the parameter server" ON)
option(WITH_TESTING "Build the C tests" OFF)
option(WITH_GPU "Build the CUDA backend" OFF)
option(WITH_RDMA "Build the RDMA transport" OFF)
set(PD_SANITIZE "" CACHE STRING "Checks to compile in: empty, address (with undefined), thread or fuzzer")
set_property(CACHE PD_SANITIZE PROPERTY STRINGS "" address thread fuzzer)

if(WITH_GPU)
  message(FATAL_ERROR "WITH_GPU=ON was asked for, but the CUDA backend is not there yet. Use -DWITH_GPU=OFF.")
endif()
if(WITH_RDMA)
  message(FATAL_ERROR "WITH_RDMA=ON was asked for, but the RDMA transport is not there yet. Use -DWITH_RDMA=OFF.")
endif()
if(NOT PD_SANITIZE MATCHES "^(address|thread|fuzzer)?$")
  message(FATAL_ERROR "PD_SANITIZE is '${PD_SANITIZE}'. Use address, thread, fuzzer, or leave it empty.")
endif()

# Build scripts of PaddlePaddle pass many more switches. They are let through, and named in one notice.
get_cmake_property(cache_names CACHE_VARIABLES)
list(FILTER cache_names INCLUDE REGEX "^WITH_[A-Z0-9_]+$")
list(REMOVE_ITEM cache_names WITH_PYTHON WITH_DISTRIBUTE WITH_TESTING WITH_GPU WITH_RDMA)
if(cache_names)
  foreach(name IN LISTS cache_names)
    set(unused "${${name}}") # read once, else CMake adds a warning of its own
  endforeach()
  list(JOIN cache_names ", " cache_names)
  message(STATUS "These options are accepted and have no effect here: ${cache_names}")
endif()
