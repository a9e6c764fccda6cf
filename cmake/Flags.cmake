# How C is compiled: language, optimisation, warnings, sanitizers. Everything hangs on the target pd_flags,
# which each of our targets links; generated sources do not get the warnings.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()
# RelWithDebInfo is Release plus debug information, so that what is tested while developing is what is shipped.
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -g -DNDEBUG")

add_library(pd_flags INTERFACE)
target_compile_definitions(pd_flags INTERFACE _GNU_SOURCE)
target_compile_options(pd_flags INTERFACE -fno-math-errno -fno-trapping-math)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  # The least a machine must have. Faster kernels are chosen at run time.
  target_compile_options(pd_flags INTERFACE -march=x86-64-v2)
endif()

add_library(pd_warnings INTERFACE)
target_compile_options(pd_warnings INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes
  -Wold-style-definition -Wvla -Wwrite-strings -Wno-unused-parameter -Wno-missing-field-initializers)

# Outputs are set only on success, and gcc cannot see that a failing call never returns success: this one warning
# would be wrong wherever a caller returns early. What is certainly uninitialised is still an error.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(pd_warnings INTERFACE -Wno-maybe-uninitialized)
endif()

# libgomp is the one OpenMP runtime. clang has its own, and the thread sanitizer does not see into libgomp,
# so those two build without it; the code then runs its loops on one thread.
set(PD_OPENMP ON)
if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU" OR PD_SANITIZE MATCHES "thread|fuzzer")
  set(PD_OPENMP OFF)
  target_compile_options(pd_warnings INTERFACE -Wno-unknown-pragmas)
endif()

if(PD_SANITIZE)
  if(PD_SANITIZE STREQUAL "fuzzer" AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PD_SANITIZE=fuzzer needs clang. Configure with -DCMAKE_C_COMPILER=clang.")
  endif()
  set(sanitizers "${PD_SANITIZE}")
  string(REPLACE "fuzzer" "fuzzer-no-link,address" sanitizers "${sanitizers}")
  string(REPLACE "address" "address,undefined" sanitizers "${sanitizers}")
  # Line numbers are all that a stack shows; the rest of -g takes a sixth of the time of a build.
  set(CMAKE_C_FLAGS_RELEASE "-O1 -g1")
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
  target_compile_options(pd_flags INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(pd_flags INTERFACE -fsanitize=${sanitizers})
  target_compile_definitions(pd_flags INTERFACE PD_SANITIZED=1)
endif()
