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
endif()
if(NEEDLE_BUILD_FUZZERS)
  target_compile_options(needle_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# needle_library(<folder> SOURCES ... DEPS ... [PRIVATE_DEPS ...]): the static library needle_<folder>.
function(needle_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(needle_${folder} STATIC ${ARG_SOURCES})
  target_link_libraries(needle_${folder} PUBLIC needle_options ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

# needle_test(<folder> SOURCES ... DEPS ...): the test program needle_<folder>_test; each of its cases is a ctest test.
function(needle_test folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(needle_${folder}_test ${ARG_SOURCES})
  target_link_libraries(needle_${folder}_test PRIVATE needle_options needle_test_support ${ARG_DEPS})
  gtest_discover_tests(needle_${folder}_test TEST_PREFIX "${folder}/" DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
endfunction()
