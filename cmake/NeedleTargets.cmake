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
  -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wdouble-promotion -Wold-style-cast -Wcast-align -Wundef -Werror
  # GCC 12 reports copies inside std::string, which never overlap (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  # Highway's NEON target has the AES instructions; without them everywhere GCC does not inline its operations.
  target_compile_options(needle_options INTERFACE -march=armv8-a+crypto)
endif()
# Kernels keep vectors in arrays, which those of no fixed size cannot be elements of.
set(disabled_targets "HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128")
if(NEEDLE_SANITIZE)
  # The checks for null pointers and types behind pointers triple the time of a compilation and find
  # nothing here that the address sanitizer does not stop at.
  target_compile_options(needle_options INTERFACE
    -fsanitize=${NEEDLE_SANITIZE} -fno-sanitize=null,vptr,object-size -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(needle_options INTERFACE -fsanitize=${NEEDLE_SANITIZE})
  # One vector target and the portable twin stand for all: instrumenting each takes minutes a source.
  string(APPEND disabled_targets "|HWY_SSSE3|HWY_SSE4|HWY_AVX3|HWY_AVX3_DL")
endif()
target_compile_definitions(needle_options INTERFACE "HWY_DISABLED_TARGETS=(${disabled_targets})")
if(NEEDLE_BUILD_FUZZERS)
  target_compile_options(needle_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# needle_single_sources(<source>...): kept out of the presets' unity builds, which compile a folder as one source: sources
# that Highway compiles once a target, and those whose headers bring another absl::string_view.
function(needle_single_sources)
  set_property(SOURCE ${ARGN} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# needle_kernel_sources(<source>...): keep groups of values in registers, which takes full unrolling and inlining in
# every build type, but not under sanitizers (quant/unroll.h).
function(needle_kernel_sources)
  needle_single_sources(${ARGN})
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
endfunction()

# needle_test(<folder> SOURCES ... DEPS ... [LONG <gtest filter>]): the test program needle_<folder>_test. Each of its
# cases is a ctest test, but under sanitizers, where starting a process takes longer than most cases, the program is; it
# then leaves out LONG: cases that take minutes when instrumented.
function(needle_test folder)
  cmake_parse_arguments(ARG "" "LONG" "SOURCES;DEPS" ${ARGN})
  set(test needle_${folder}_test)
  add_executable(${test} ${ARG_SOURCES})
  target_link_libraries(${test} PRIVATE needle_options needle_test_support ${ARG_DEPS})
  # The work is in the libraries; optimised, the tests alone would take longer to compile than all of them.
  target_compile_options(${test} PRIVATE -O0)
  if(NEEDLE_SANITIZE)
    add_test(NAME ${folder} COMMAND ${test} "--gtest_filter=-${ARG_LONG}")
    set_tests_properties(${folder} PROPERTIES TIMEOUT 1500)
  else()
    gtest_discover_tests(${test} TEST_PREFIX "${folder}/" DISCOVERY_MODE PRE_TEST
      DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 1500)
  endif()
endfunction()
