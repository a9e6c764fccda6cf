# libpaddle: one object library per folder of src/, joined into the shared library that users link and, where tests are
# built, into an archive for the C tests (which reach what the shared library hides).

set(folders base backend kernels tensor program passes ops exec data)
if(WITH_DISTRIBUTE)
  list(APPEND folders net pserver)
endif()
list(APPEND folders api)

# Protobuf descriptions lie beside the code that reads them; what protoc-c makes of them stays in the build folder.
file(GLOB protos CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*/*.proto")
set(proto_sources "")
set(proto_headers "")
foreach(proto IN LISTS protos)
  get_filename_component(proto_dir "${proto}" DIRECTORY)
  get_filename_component(folder "${proto_dir}" NAME)
  get_filename_component(name "${proto}" NAME_WE)
  set(made "${PROJECT_BINARY_DIR}/generated/${folder}/${name}.pb-c")
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/generated/${folder}")
  add_custom_command(OUTPUT "${made}.c" "${made}.h"
    COMMAND "${PROTOC_C}" "--proto_path=${proto_dir}" "--c_out=${PROJECT_BINARY_DIR}/generated/${folder}" "${proto}"
    DEPENDS "${proto}" VERBATIM)
  list(APPEND proto_sources "${made}.c")
  list(APPEND proto_headers "${made}.h")
endforeach()

# The page that shows a job is a file, which servers carry as an array of bytes.
set(page "${PROJECT_SOURCE_DIR}/python/paddle/distributed/page.html")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${page}")
file(READ "${page}" page_bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," page_bytes "${page_bytes}")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/pserver/server/page.h"
  CONTENT "static const unsigned char pd_page[] = {@page_bytes@};\n" @ONLY)

set(objects "")
if(proto_sources)
  add_custom_target(pd_proto_headers DEPENDS ${proto_headers})
  add_library(pd_proto OBJECT ${proto_sources})
  target_include_directories(pd_proto PRIVATE "${PROTOBUF_C_INCLUDE}")
  target_compile_options(pd_proto PRIVATE -w)
  target_link_libraries(pd_proto PRIVATE pd_flags)
  add_dependencies(pd_proto pd_proto_headers)
  list(APPEND objects $<TARGET_OBJECTS:pd_proto>)
endif()

set(features "PD_CPADDLE_VERSION=\"${PROJECT_VERSION}\"")
set(WITH_ONEDNN OFF)
if(PD_ONEDNN_INCLUDE)
  set(WITH_ONEDNN ON)
endif()
foreach(option WITH_PYTHON WITH_DISTRIBUTE WITH_GPU WITH_RDMA WITH_ONEDNN)
  if(${option})
    list(APPEND features PD_${option}=1)
  else()
    list(APPEND features PD_${option}=0)
  endif()
endforeach()

# Their numbers are upstream's bit by bit: no fused multiply-add, which rounds once less.
set_source_files_properties(src/kernels/minstd.c src/ops/draw_seeded.c PROPERTIES COMPILE_OPTIONS -ffp-contract=off)

foreach(folder IN LISTS folders)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${folder}/*.c")
  if(NOT sources)
    continue()
  endif()
  add_library(pd_${folder} OBJECT ${sources})
  target_include_directories(pd_${folder} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_compile_options(pd_${folder} PRIVATE -Wmissing-prototypes)
  target_link_libraries(pd_${folder} PRIVATE pd_flags pd_warnings)
  list(APPEND objects $<TARGET_OBJECTS:pd_${folder}>)

  # A kernel file named for an instruction set is compiled for it; who calls it asks the processor first.
  foreach(source IN LISTS sources)
    if(source MATCHES "_avx2\\.c$")
      set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mbmi2")
    elseif(source MATCHES "_avx512\\.c$")
      set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS
        "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c;-mbmi2;-mprefer-vector-width=512")
    endif()
  endforeach()
endforeach()

if(TARGET pd_program)
  target_include_directories(pd_program PRIVATE "${PROJECT_BINARY_DIR}/generated"
    "${PROJECT_BINARY_DIR}/generated/program" "${PROTOBUF_C_INCLUDE}")
  if(TARGET pd_proto_headers)
    add_dependencies(pd_program pd_proto_headers)
  endif()
endif()
if(TARGET pd_kernels AND PD_ONEDNN_INCLUDE)
  target_include_directories(pd_kernels SYSTEM PRIVATE "${PD_ONEDNN_INCLUDE}")
  target_compile_definitions(pd_kernels PRIVATE PD_WITH_ONEDNN=1)
endif()
if(TARGET pd_net)
  target_include_directories(pd_net SYSTEM PRIVATE "${LIBUV_INCLUDE}" "${OPENSSL_INCLUDE}" "${MICROHTTPD_INCLUDE}")
endif()
if(TARGET pd_pserver)
  target_include_directories(pd_pserver PRIVATE "${PROJECT_BINARY_DIR}/generated")
endif()
if(TARGET pd_api)
  target_compile_definitions(pd_api PRIVATE ${features})
endif()

if(NOT objects)
  message(FATAL_ERROR "There are no C files under ${PROJECT_SOURCE_DIR}/src. Is the checkout complete?")
endif()

add_library(paddle_archive STATIC EXCLUDE_FROM_ALL ${objects})
set_target_properties(paddle_archive PROPERTIES OUTPUT_NAME paddle_archive LINKER_LANGUAGE C)
target_include_directories(paddle_archive PUBLIC "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(paddle_archive PUBLIC pd_flags ${PD_FOR_PROGRAMS})

# In the build folder the shared library already lies where the Python package looks for it.
add_library(paddle SHARED ${objects})
set_target_properties(paddle PROPERTIES
  LINKER_LANGUAGE C
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/paddle/_lib"
  INSTALL_RPATH "$ORIGIN")
target_include_directories(paddle PUBLIC "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(paddle PRIVATE pd_flags ${PD_FOR_LIBRARY})
target_link_options(paddle PRIVATE -Wl,--exclude-libs,ALL)
if(NOT PD_SANITIZE)
  target_link_options(paddle PRIVATE -Wl,--no-undefined)
endif()

if(SKBUILD)
  # A wheel cannot hold links, so there the library has one name, and brings along what Python users may lack.
  install(TARGETS paddle LIBRARY DESTINATION paddle/_lib)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/paddle" DESTINATION paddle/include FILES_MATCHING PATTERN "*.h")
  foreach(file IN LISTS PD_FOR_LIBRARY)
    if(file MATCHES "\\.so$")
      # Under the name that the library asks for.
      execute_process(COMMAND "${CMAKE_READELF}" -d "${file}" OUTPUT_VARIABLE dynamic ERROR_QUIET)
      file(REAL_PATH "${file}" real_file)
      if(dynamic MATCHES "Library soname: \\[([^]]+)\\]")
        install(FILES "${real_file}" DESTINATION paddle/_lib RENAME "${CMAKE_MATCH_1}")
      endif()
    endif()
  endforeach()
else()
  set_target_properties(paddle PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  install(TARGETS paddle LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/paddle" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/paddle.pc.in" "${PROJECT_BINARY_DIR}/paddle.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/paddle.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
