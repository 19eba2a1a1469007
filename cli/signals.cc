#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

#include "base/removal_list.h"
#include "cli/exit_code.h"

namespace needle::cli {
namespace {

// Only async-signal-safe calls below.
void EndInterrupted(int) {
  base::RemoveRemembered();
  _exit(static_cast<int>(ExitCode::kInterrupted));
}

void EndOnLostInput(int) {
  base::RemoveRemembered();
  constexpr std::string_view kMessage =
      "needle-build: error: an input file was cut short or became unreadable while it was read\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(static_cast<int>(ExitCode::kFailed));
}

void Handle(int signal_number, void (*handler)(int)) {
  struct sigaction before = {};
  sigaction(signal_number, nullptr, &before);
  if (before.sa_handler == SIG_IGN && handler == EndInterrupted) return;
  struct sigaction action = {};
  action.sa_handler = handler;
  sigfillset(&action.sa_mask);
  sigaction(signal_number, &action, nullptr);
}

}  // namespace

void InstallSignalHandlers() {
  Handle(SIGINT, EndInterrupted);
  Handle(SIGTERM, EndInterrupted);
  Handle(SIGHUP, EndInterrupted);
  Handle(SIGBUS, EndOnLostInput);
  Handle(SIGPIPE, SIG_IGN);
  Handle(SIGXFSZ, SIG_IGN);
}

}  // namespace needle::cli
