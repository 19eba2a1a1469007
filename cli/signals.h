// cli/signals.h: an interrupted program leaves nothing behind.
#ifndef NEEDLE_CLI_SIGNALS_H_
#define NEEDLE_CLI_SIGNALS_H_

namespace needle::cli {

// From here on SIGINT, SIGTERM and SIGHUP remove every temporary file and end the program with 130;
// SIGBUS (an input cut short by another program while it was mapped) removes them, says so and ends
// it with 1. Writing to a pipe without reader, or past a file size limit, gives an error instead of
// a signal. Signals that the caller had set to be ignored (nohup) stay ignored.
void InstallSignalHandlers();

}  // namespace needle::cli

#endif  // NEEDLE_CLI_SIGNALS_H_
