// tests/cli/program.h: the needle-build executable as a test sees it.
#ifndef NEEDLE_TESTS_CLI_PROGRAM_H_
#define NEEDLE_TESTS_CLI_PROGRAM_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace needle::tests {

struct ProgramResult {
  int exit_code = -1;  // minus the signal's number when one ended it
  std::string out;
  std::string err;
  // Standard output as JSON; fails the test when it is none.
  base::Json Json() const;
};

struct ProgramCall {
  std::vector<std::string> arguments;
  std::string input;   // standard input
  std::string folder;  // working folder; empty: the test's
  std::vector<std::pair<std::string, std::string>> environment;  // added to the test's
  std::function<void()> in_child;  // after fork, before exec: async-signal-safe calls only
  std::string program;             // empty: needle-build
};

// Runs to the end. Standard output and error are pipes unless `in_child` replaces them.
ProgramResult RunProgram(const ProgramCall& call);
ProgramResult RunProgram(std::vector<std::string> arguments);

// The environment that makes the program send itself `signal_number` at the `count`-th call (from
// 1; 0: at every call) of `function` ("pwrite", "fsync", "rename", "pthread_create", "mmap" of a
// file): a signal at a known moment of the work.
std::vector<std::pair<std::string, std::string>> SignalAt(const std::string& function, int count,
                                                          int signal_number);
// The same, but the call fails with `error_number`.
std::vector<std::pair<std::string, std::string>> FailAt(const std::string& function, int count,
                                                        int error_number);

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_CLI_PROGRAM_H_
