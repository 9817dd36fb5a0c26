"""What an installation holds, and that users can build against it and move it."""

import os
import subprocess

from installed import CONSUMER, ROOT, InstalledTest, run


class PackageTest(InstalledTest):
    def test_consumer_by_find_package(self):
        self.assertIn("consumer: good", run(self.build_with_find_package(self.prefix, "by_find_package")))

    def test_consumer_by_pkg_config(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.lib / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "rankcast", env=environment).split()
        program = self.folder / "by_pkg_config"
        run("g++", "-std=c++20", CONSUMER / "main.cc", "-o", program, *flags, f"-Wl,-rpath,{self.lib}")
        self.assertIn("consumer: good", run(program))

    def test_version_of_pkg_config(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.lib / "pkgconfig")}
        version = run("pkg-config", "--modversion", "rankcast", env=environment).strip()
        self.assertIn(f'"{version}"', (ROOT / "include/rankcast/version.h").read_text())

    def test_installation_that_was_moved(self):
        moved = self.folder / "moved"
        run("cp", "-a", self.prefix, moved)
        hidden = self.folder / "hidden"
        self.prefix.rename(hidden)
        self.addCleanup(hidden.rename, self.prefix)
        self.assertIn("rankcast", run(moved / "bin/rankcast", "--version"))
        run(moved / "bin/rankcast", "bench", "dispatch", "--devices", "0,1", "--rounds", "2", "--tensor-args", "3")
        self.assertIn("consumer: good", run(self.build_with_find_package(moved, "against_moved")))

    def test_only_public_headers(self):
        installed = {path.relative_to(self.prefix).as_posix() for path in self.prefix.rglob("*.h")}
        public = {path.relative_to(ROOT).as_posix() for path in (ROOT / "include").rglob("*.h")}
        self.assertEqual(installed, public)

    def test_headers_need_no_library_of_ours(self):
        read = run("g++", "-std=c++20", "-M", f"-I{self.prefix}/include", CONSUMER / "main.cc")
        for library in ("/fmt/", "/spdlog/", "/nlohmann/", "/tl/", "/CLI/"):
            self.assertNotIn(library, read)

    def test_only_marked_symbols_are_visible(self):
        symbols = run("nm", "-DC", "--defined-only", self.lib / "librankcast.so").splitlines()
        names = [line.split(maxsplit=2)[2] for line in symbols]
        strange = [name for name in names if "rankcast::" not in name]
        self.assertEqual(strange, [])
        self.assertTrue(any("rankcast::library_version" in name for name in names))

    def test_example_with_a_kernel_of_its_own(self):
        build = self.folder / "custom_kernel"
        run("cmake", "-G", "Ninja", "-S", ROOT / "examples/custom_kernel", "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        for link in ("thread", "process"):
            self.assertIn("11 everywhere", run(build / "custom_kernel", build / "libaxpy.so", link))
        missing = subprocess.run([build / "custom_kernel", build / "missing.so"], capture_output=True, text=True)
        self.assertEqual(missing.returncode, 3)
        self.assertIn("missing.so", missing.stderr)

    def test_program_of_process_ranks_is_found_from_the_library(self):
        out = run(self.prefix / "bin/rankcast", "bench", "dispatch", "--devices", "0,1", "--rounds", "2",
                  "--tensor-args", "3", "--link", "process")
        self.assertIn("every result verified", out)

    def test_library_of_kernels_lies_beside(self):
        self.assertTrue((self.lib / "librankcast_kernels.so").is_file())

    def test_nothing_points_into_the_build(self):
        for path in [*self.lib.glob("*.so"), self.prefix / "bin/rankcast"]:
            dynamic = run("readelf", "-d", path)
            self.assertNotIn(str(ROOT), dynamic, path)
        for path in [*self.lib.rglob("*.cmake"), *self.lib.rglob("*.pc")]:
            self.assertNotIn(str(ROOT), path.read_text(), path)
