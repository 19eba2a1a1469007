# The one place for the language standard, warnings and numeric flags, and for how a folder becomes a library or a test.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(needle_options INTERFACE)
target_include_directories(needle_options INTERFACE "${CMAKE_SOURCE_DIR}")
# Contraction into fused multiply-adds would change bytes between machines; see docs/architecture.md, Numerics.
target_compile_options(needle_options INTERFACE
  -ffp-contract=off
  -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wdouble-promotion -Wold-style-cast -Wcast-align -Wundef -Werror)
if(NEEDLE_SANITIZE)
  # The checks for null pointers and types behind pointers triple the time of a compilation and find
  # nothing here that the address sanitizer does not stop at.
  target_compile_options(needle_options INTERFACE
    -fsanitize=${NEEDLE_SANITIZE} -fno-sanitize=null,vptr,object-size -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(needle_options INTERFACE -fsanitize=${NEEDLE_SANITIZE})
  # One vector target and the portable twin stand for all: instrumenting each takes minutes a source.
  target_compile_definitions(needle_options INTERFACE
    "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3|HWY_AVX3_DL)")
endif()
if(NEEDLE_BUILD_FUZZERS)
  target_compile_options(needle_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# The headers that nearly every source reads, parsed once a target. Without them (the release preset) each source must
# still include all that it uses.
option(NEEDLE_PRECOMPILE "Precompile the headers that most sources include" OFF)
function(needle_precompile target)
  if(NEEDLE_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE
      <algorithm> <functional> <map> <memory> <optional> <span> <string> <string_view> <vector>
      <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> ${ARGN})
  endif()
endfunction()

# needle_kernel_sources(<source>...): keep groups of values in registers, which takes full unrolling and inlining in
# every build type, but not under sanitizers (quant/unroll.h).
function(needle_kernel_sources)
  set_property(SOURCE ${ARGN} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  if(NEEDLE_SANITIZE)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_DEFINITIONS NEEDLE_NO_UNROLL)
  else()
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -O3)
  endif()
endfunction()

# needle_library(<folder> SOURCES ... DEPS ... [PRIVATE_DEPS ...]): the static library needle_<folder>.
function(needle_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(needle_${folder} STATIC ${ARG_SOURCES})
  target_link_libraries(needle_${folder} PUBLIC needle_options ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  needle_precompile(needle_${folder})
endfunction()

# needle_test(<folder> SOURCES ... DEPS ...): the test program needle_<folder>_test; each of its cases is a ctest test.
function(needle_test folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(needle_${folder}_test ${ARG_SOURCES})
  target_link_libraries(needle_${folder}_test PRIVATE needle_options needle_test_support ${ARG_DEPS})
  needle_precompile(needle_${folder}_test <gmock/gmock.h> <gtest/gtest.h>)
  if(NEEDLE_PRECOMPILE)
    # Out of a precompiled header, GCC 12 no longer takes std::string for a system header and reports
    # what it is known to get wrong there (GCC bug 105651).
    target_compile_options(needle_${folder}_test PRIVATE
      -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
  endif()
  gtest_discover_tests(needle_${folder}_test TEST_PREFIX "${folder}/" DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 1500)
endfunction()
