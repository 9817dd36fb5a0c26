#include "tools/rankcast/command_line.h"

int main(int argc, char** argv) { return rankcast::tools::run_command_line(argc, argv); }
