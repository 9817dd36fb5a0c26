"""Runs a program that may hang: by its output it shows that it still moves."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import time


@dataclasses.dataclass(frozen=True)
class Limits:
    """Generous: they end what hangs, they do not judge what is slow."""

    silent_s: float
    total_s: float


QUICK_LIMITS = Limits(silent_s=240, total_s=600)
THOROUGH_LIMITS = Limits(silent_s=600, total_s=1500)


@dataclasses.dataclass(frozen=True)
class Ended:
    """How the program ended: `hung` is the reason for which it was killed, empty if it was not."""

    status: int
    hung: str

    def describe(self) -> str:
        if self.hung:
            return f"hung: {self.hung}; killed"
        if self.status < 0:
            return f"ended by signal {signal.Signals(-self.status).name}"
        return f"exit status {self.status}"


def run_watched(argv: list[str], log: pathlib.Path, env: dict[str, str], limits: Limits) -> Ended:
    """Runs `argv` with all its output in `log`; kills its process group when a limit is passed."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
            start_new_session=True,
        )
    started = moved = time.monotonic()
    size, pause = 0, 0.01
    while True:
        try:
            return Ended(process.wait(timeout=pause), "")
        except subprocess.TimeoutExpired:
            pause = min(pause * 2, 0.25)
        now = time.monotonic()
        if log.stat().st_size != size:
            size, moved = log.stat().st_size, now
        hung = ""
        if now - moved > limits.silent_s:
            hung = f"no output for {limits.silent_s:.0f} s"
        elif now - started > limits.total_s:
            hung = f"not done after {limits.total_s:.0f} s"
        if hung:
            _append_stacks(process.pid, log)
            os.killpg(process.pid, signal.SIGKILL)
            return Ended(process.wait(), hung)


def _append_stacks(pid: int, log: pathlib.Path) -> None:
    if not shutil.which("gdb"):
        return
    with log.open("ab") as output:
        output.write(b"\nstacks of all threads at the hang:\n")
        output.flush()
        command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"]
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=60)
        except subprocess.TimeoutExpired:
            output.write(b"gdb did not answer\n")
