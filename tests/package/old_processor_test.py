"""On a processor below x86-64-v3 library and command end with a sentence and status 3."""

import shutil
import subprocess
import unittest

from installed import InstalledTest, run

EMULATOR = "qemu-x86_64"


@unittest.skipUnless(shutil.which(EMULATOR), f"{EMULATOR} is not installed")
class ThoroughOldProcessorTest(InstalledTest):
    def on(self, processor: str, *argv) -> subprocess.CompletedProcess:
        return subprocess.run([EMULATOR, "-cpu", processor, *[str(word) for word in argv]],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)

    def assert_refused(self, done: subprocess.CompletedProcess) -> None:
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("this processor is too old", done.stderr)
        self.assertIn("x86-64-v3", done.stderr)

    def test_command_on_an_old_processor(self):
        self.assert_refused(self.on("Nehalem", self.prefix / "bin/rankcast", "--version"))

    def test_one_missing_feature_is_enough(self):
        self.assert_refused(self.on("max,bmi2=off", self.prefix / "bin/rankcast", "--version"))

    def test_command_on_a_processor_that_has_all(self):
        done = self.on("max", self.prefix / "bin/rankcast", "--version")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_program_of_a_user_on_an_old_processor(self):
        self.assert_refused(self.on("Nehalem", self.build_with_find_package(self.prefix, "consumer")))
