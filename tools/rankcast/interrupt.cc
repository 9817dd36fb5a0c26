#include "tools/rankcast/interrupt.h"

#include "tools/rankcast/exit_code.h"

namespace rankcast::tools {

namespace {

// Written by the handler, read by the thread that it may have interrupted.
volatile std::sig_atomic_t interrupted = 0;

void note_signal(int /*signal*/) { interrupted = 1; }

}  // namespace

InterruptWatch::InterruptWatch() {
  interrupted = 0;
  struct sigaction action{};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, &before_int_);
  sigaction(SIGTERM, &action, &before_term_);
}

InterruptWatch::~InterruptWatch() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
}

void InterruptWatch::throw_if_interrupted() const {
  if (interrupted != 0) throw Interrupted();
}

}  // namespace rankcast::tools
