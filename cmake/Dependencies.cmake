# What the library stands on. Each dependency becomes one target or one variable used by Library.cmake.

find_package(Threads REQUIRED)
target_link_libraries(pd_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)

if(PD_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS C)
  target_link_libraries(pd_flags INTERFACE OpenMP::OpenMP_C)
endif()

# A Python is wanted even without the extension: oneDNN's headers come from PyPI and lie under its prefix.
if(WITH_PYTHON)
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
else()
  find_package(Python 3.11 COMPONENTS Interpreter)
endif()

# oneDNN: only its headers are needed here, the library is opened at run time. The search is not cached, because
# pip builds in a throw-away environment whose path differs each time. Sanitizer builds run the plain C kernels.
set(ONEDNN_ROOT "" CACHE PATH "Folder that holds include/dnnl.h")
set(PD_ONEDNN_INCLUDE "")
if(NOT PD_SANITIZE)
  set(onednn_code "
import os, sys
places = [sys.prefix, sys.base_prefix]
for entry in sys.path:
    for _ in range(4):
        entry = os.path.dirname(entry)
        places.append(entry)
for place in ['${ONEDNN_ROOT}', *places, '${PROJECT_SOURCE_DIR}/.venv', '/usr', '/usr/local']:
    if place and os.path.isfile(os.path.join(place, 'include', 'dnnl.h')):
        print(os.path.join(place, 'include'))
        break
")
  if(Python_EXECUTABLE)
    execute_process(COMMAND "${Python_EXECUTABLE}" -c "${onednn_code}"
      OUTPUT_VARIABLE PD_ONEDNN_INCLUDE OUTPUT_STRIP_TRAILING_WHITESPACE)
  elseif(EXISTS "${ONEDNN_ROOT}/include/dnnl.h")
    set(PD_ONEDNN_INCLUDE "${ONEDNN_ROOT}/include")
  endif()
  if(PD_ONEDNN_INCLUDE)
    message(STATUS "oneDNN headers: ${PD_ONEDNN_INCLUDE}")
  else()
    message(STATUS "oneDNN headers: not found, so products and convolutions run on the plain C kernels. "
      "Install onednn-devel-cpu-gomp==2023.2.0 with pip, or set ONEDNN_ROOT.")
  endif()
endif()

# protobuf-c: the archive where it may go into a shared library (it is position independent), else the shared one.
find_program(PROTOC_C NAMES protoc-c)
find_path(PROTOBUF_C_INCLUDE protobuf-c/protobuf-c.h)
find_library(PROTOBUF_C_SHARED NAMES libprotobuf-c.so)
find_library(PROTOBUF_C_STATIC NAMES libprotobuf-c.a)
if(NOT PROTOC_C OR NOT PROTOBUF_C_INCLUDE OR NOT (PROTOBUF_C_SHARED OR PROTOBUF_C_STATIC))
  message(FATAL_ERROR "protobuf-c was not found. On Debian: apt-get install libprotobuf-c-dev protobuf-c-compiler")
endif()
if(PROTOBUF_C_STATIC AND NOT DEFINED PROTOBUF_C_STATIC_IS_PIC)
  set(probe "${CMAKE_BINARY_DIR}/probe-protobuf-c.so")
  set(probe_source "${CMAKE_BINARY_DIR}/probe-protobuf-c.c")
  file(WRITE "${probe_source}" "const char *protobuf_c_version(void);\nconst char *probe(void);\n\
void *protobuf_c_message_unpack();\nvoid *unpack(void);\n\
const char *probe(void) { return protobuf_c_version(); }\nvoid *unpack(void) { return protobuf_c_message_unpack(); }\n")
  execute_process(COMMAND "${CMAKE_C_COMPILER}" -shared -fPIC "${probe_source}" "${PROTOBUF_C_STATIC}" -o "${probe}"
    RESULT_VARIABLE probe_result OUTPUT_QUIET ERROR_QUIET)
  if(probe_result EQUAL 0)
    set(PROTOBUF_C_STATIC_IS_PIC ON CACHE INTERNAL "")
  else()
    set(PROTOBUF_C_STATIC_IS_PIC OFF CACHE INTERNAL "")
  endif()
endif()
if(PROTOBUF_C_STATIC AND (PROTOBUF_C_STATIC_IS_PIC OR NOT PROTOBUF_C_SHARED))
  set(PD_PROTOBUF_C_FOR_LIBRARY "${PROTOBUF_C_STATIC}")
else()
  set(PD_PROTOBUF_C_FOR_LIBRARY "${PROTOBUF_C_SHARED}")
endif()
if(PROTOBUF_C_STATIC)
  set(PD_PROTOBUF_C_FOR_PROGRAMS "${PROTOBUF_C_STATIC}")
else()
  set(PD_PROTOBUF_C_FOR_PROGRAMS "${PROTOBUF_C_SHARED}")
endif()
