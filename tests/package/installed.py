"""A temporary installation of the build under test, for the tests of this folder."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RANKCAST_TEST_BUILD", ROOT / "build/release"))
CONSUMER = pathlib.Path(__file__).resolve().parent / "consumer"


def run(*argv, **options) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{argv} exited with {done.returncode}:\n{done.stdout}")
    return done.stdout


class InstalledTest(unittest.TestCase):
    """One installation a class, at `prefix`; `folder` is for what a case builds."""

    @classmethod
    def setUpClass(cls) -> None:
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.lib = next(cls.prefix.glob("lib*/librankcast.so")).parent

    def build_with_find_package(self, prefix: pathlib.Path, name: str) -> pathlib.Path:
        """Builds the consumer in a folder of its own; returns its program."""
        build = self.folder / name
        run("cmake", "-G", "Ninja", "-S", CONSUMER, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", build)
        return build / "consumer"
