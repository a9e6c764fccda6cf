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

# Finds a C library that our shared library and our programs link: the archive where it may go into a shared library
# (it is position independent), else the shared one. Sets PD_<NAME>_FOR_LIBRARY and PD_<NAME>_FOR_PROGRAMS. `symbol`
# is one of its functions, by which the archive is tried.
function(pd_find_library name symbol archive shared package)
  find_library(${name}_SHARED NAMES ${shared})
  find_library(${name}_STATIC NAMES ${archive})
  if(NOT ${name}_SHARED AND NOT ${name}_STATIC)
    message(FATAL_ERROR "Neither ${archive} nor ${shared} was found. On Debian: apt-get install ${package}")
  endif()
  if(${name}_STATIC AND NOT DEFINED ${name}_STATIC_IS_PIC)
    set(probe "${CMAKE_BINARY_DIR}/probe-${name}")
    file(WRITE "${probe}.c" "void ${symbol}(void);\nvoid *probe(void);\nvoid *probe(void) { return ${symbol}; }\n")
    execute_process(COMMAND "${CMAKE_C_COMPILER}" -shared -fPIC "${probe}.c" "${${name}_STATIC}" -o "${probe}.so"
      RESULT_VARIABLE probe_result OUTPUT_QUIET ERROR_QUIET)
    if(probe_result EQUAL 0)
      set(${name}_STATIC_IS_PIC ON CACHE INTERNAL "")
    else()
      set(${name}_STATIC_IS_PIC OFF CACHE INTERNAL "")
    endif()
  endif()
  if(${name}_STATIC AND (${name}_STATIC_IS_PIC OR NOT ${name}_SHARED))
    set(PD_${name}_FOR_LIBRARY "${${name}_STATIC}" PARENT_SCOPE)
  else()
    set(PD_${name}_FOR_LIBRARY "${${name}_SHARED}" PARENT_SCOPE)
  endif()
  if(${name}_STATIC)
    set(PD_${name}_FOR_PROGRAMS "${${name}_STATIC}" PARENT_SCOPE)
  else()
    set(PD_${name}_FOR_PROGRAMS "${${name}_SHARED}" PARENT_SCOPE)
  endif()
endfunction()

# protobuf-c: ProgramDesc on disk.
find_program(PROTOC_C NAMES protoc-c)
find_path(PROTOBUF_C_INCLUDE protobuf-c/protobuf-c.h)
if(NOT PROTOC_C OR NOT PROTOBUF_C_INCLUDE)
  message(FATAL_ERROR "protobuf-c was not found. On Debian: apt-get install libprotobuf-c-dev protobuf-c-compiler")
endif()
pd_find_library(PROTOBUF_C protobuf_c_message_unpack libprotobuf-c.a libprotobuf-c.so libprotobuf-c-dev)
set(PD_FOR_LIBRARY "${PD_PROTOBUF_C_FOR_LIBRARY}")
set(PD_FOR_PROGRAMS "${PD_PROTOBUF_C_FOR_PROGRAMS}")

# The network: libuv for its loops, OpenSSL's libcrypto for the proof of a shared secret and seals, its libssl for TLS.
if(WITH_DISTRIBUTE)
  find_path(LIBUV_INCLUDE uv.h)
  find_path(OPENSSL_INCLUDE openssl/hmac.h)
  if(NOT LIBUV_INCLUDE OR NOT OPENSSL_INCLUDE)
    message(FATAL_ERROR "WITH_DISTRIBUTE=ON needs libuv and OpenSSL. On Debian: apt-get install libuv1-dev libssl-dev")
  endif()
  # libmicrohttpd answers HTTP: only its header is needed here, the library is opened when somebody asks for that.
  find_path(MICROHTTPD_INCLUDE microhttpd.h)
  if(NOT MICROHTTPD_INCLUDE)
    message(FATAL_ERROR "WITH_DISTRIBUTE=ON needs libmicrohttpd's header. On Debian: apt-get install libmicrohttpd-dev")
  endif()
  pd_find_library(LIBUV uv_loop_init libuv_a.a libuv.so libuv1-dev)
  pd_find_library(SSL SSL_new libssl.a libssl.so libssl-dev)
  pd_find_library(CRYPTO HMAC libcrypto.a libcrypto.so libssl-dev)
  list(APPEND PD_FOR_LIBRARY "${PD_LIBUV_FOR_LIBRARY}" "${PD_SSL_FOR_LIBRARY}" "${PD_CRYPTO_FOR_LIBRARY}")
  list(APPEND PD_FOR_PROGRAMS "${PD_LIBUV_FOR_PROGRAMS}" "${PD_SSL_FOR_PROGRAMS}" "${PD_CRYPTO_FOR_PROGRAMS}")
endif()
