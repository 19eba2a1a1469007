#include "tests/cli/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "gtest/gtest.h"

namespace needle::tests {
namespace {

struct Pipe {
  std::array<int, 2> ends = {-1, -1};
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
  }
  int read_end() const { return ends[0]; }
  int write_end() const { return ends[1]; }
};

[[noreturn]] void Become(const ProgramCall& call, char* const* arguments, char* const* environment,
                         const Pipe& in, const Pipe& out, const Pipe& err) {
  dup2(in.read_end(), STDIN_FILENO);
  dup2(out.write_end(), STDOUT_FILENO);
  dup2(err.write_end(), STDERR_FILENO);
  if (!call.folder.empty() && chdir(call.folder.c_str()) != 0) _exit(126);
  if (call.in_child) call.in_child();
  execve(arguments[0], arguments, environment);
  _exit(127);
}

std::vector<std::string> Environment(const ProgramCall& call) {
  std::vector<std::string> texts;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : call.environment) {
      replaced = replaced || text.starts_with(name + "=");
    }
    if (!replaced) texts.push_back(text);
  }
  for (const auto& [name, value] : call.environment) texts.push_back(name + "=" + value);
  return texts;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Feeds `input` and collects both outputs until both are closed.
void Talk(std::string input, Pipe& in, Pipe& out, Pipe& err, ProgramResult& result) {
  fcntl(in.write_end(), F_SETFL, O_NONBLOCK);
  std::array<pollfd, 3> ends = {
      {{in.write_end(), POLLOUT, 0}, {out.read_end(), POLLIN, 0}, {err.read_end(), POLLIN, 0}}};
  std::array<std::string*, 3> texts = {&input, &result.out, &result.err};
  std::vector<char> buffer(1 << 16);
  while (ends[1].fd >= 0 || ends[2].fd >= 0) {
    if (poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) std::abort();
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      const ssize_t moved = i == 0 ? write(ends[i].fd, input.data(), input.size())
                                   : read(ends[i].fd, buffer.data(), buffer.size());
      if (moved < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (moved > 0 && i > 0) texts[i]->append(buffer.data(), static_cast<size_t>(moved));
      if (moved > 0 && i == 0) input.erase(0, static_cast<size_t>(moved));
      const bool closed = i == 0 ? moved < 0 || input.empty() : moved <= 0;
      if (closed) {
        close(ends[i].fd);
        ends[i].fd = -1;
      }
    }
  }
  if (ends[0].fd >= 0) close(ends[0].fd);
}

std::vector<std::pair<std::string, std::string>> Shim(const std::string& function, int count,
                                                      const std::string& what, int number) {
  return {{"LD_PRELOAD", NEEDLE_CALL_SHIM},
          {"ASAN_OPTIONS", "verify_asan_link_order=0"},
          {"NEEDLE_SHIM_FUNCTION", function},
          {"NEEDLE_SHIM_COUNT", std::to_string(count)},
          {what, std::to_string(number)}};
}

}  // namespace

base::Json ProgramResult::Json() const {
  absl::StatusOr<base::Json> value = base::ParseJson(out);
  EXPECT_TRUE(value.ok()) << value.status() << "\nstdout: " << out << "\nstderr: " << err;
  return value.ok() ? *value : base::Json();
}

ProgramResult RunProgram(const ProgramCall& call) {
  std::vector<std::string> arguments = {call.program.empty() ? NEEDLE_BUILD_PROGRAM : call.program};
  arguments.insert(arguments.end(), call.arguments.begin(), call.arguments.end());
  std::vector<std::string> environment = Environment(call);
  const std::vector<char*> argument_pointers = Pointers(arguments);
  const std::vector<char*> environment_pointers = Pointers(environment);
  Pipe in, out, err;
  const pid_t child = fork();
  if (child == 0) {
    Become(call, argument_pointers.data(), environment_pointers.data(), in, out, err);
  }
  close(in.read_end());
  close(out.write_end());
  close(err.write_end());
  ProgramResult result;
  Talk(call.input, in, out, err, result);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return result;
}

ProgramResult RunProgram(std::vector<std::string> arguments) {
  ProgramCall call;
  call.arguments = std::move(arguments);
  return RunProgram(call);
}

std::vector<std::pair<std::string, std::string>> SignalAt(const std::string& function, int count,
                                                          int signal_number) {
  return Shim(function, count, "NEEDLE_SHIM_SIGNAL", signal_number);
}

std::vector<std::pair<std::string, std::string>> FailAt(const std::string& function, int count,
                                                        int error_number) {
  return Shim(function, count, "NEEDLE_SHIM_ERROR", error_number);
}

}  // namespace needle::tests
