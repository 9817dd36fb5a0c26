"""Runs a compiler or a linter over many files, as many at a time as there are cores."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import time


def run_all(commands: list[list[str]], cwd, deadline_s: float | None = None) -> list[tuple[int, str] | None]:
    """(exit status, output) of each command, in order; None for one that the deadline left out."""
    stop = None if deadline_s is None else time.monotonic() + deadline_s

    def run(command: list[str]) -> tuple[int, str] | None:
        if stop is not None and time.monotonic() > stop:
            return None
        done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(run, commands))
