"""The files of the tree, as every check sees them."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent

CPP_SUFFIXES = (".h", ".cc")
# Where the product lives; tests and docs are not in it.
PRODUCT = ("include", "src", "tools", "bench", "examples", "python", "scripts")


def files(root: pathlib.Path) -> list[pathlib.PurePosixPath]:
    """Every file that git knows or would add, relative to the root; without git, every file."""
    try:
        listing = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"],
            capture_output=True, text=True, check=True,
        ).stdout
        names = [name for name in listing.split("\0") if name and (root / name).is_file()]
    except (OSError, subprocess.CalledProcessError):
        names = list(_walk(root))
    return [pathlib.PurePosixPath(name) for name in sorted(set(names))]


def _walk(root: pathlib.Path):
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in ("build", ".git", ".venv")]
        for name in names:
            yield (pathlib.Path(folder) / name).relative_to(root).as_posix()


def cpp_files(root: pathlib.Path, folders: tuple[str, ...]) -> list[pathlib.PurePosixPath]:
    return [path for path in files(root) if path.suffix in CPP_SUFFIXES and path.parts[0] in folders]


def read(root: pathlib.Path, path: pathlib.PurePosixPath) -> str:
    """The text of a file; empty for one that is not text."""
    try:
        return (root / path).read_text()
    except UnicodeDecodeError:
        return ""


def without_comments(text: str) -> str:
    """C++ text with comments and the contents of strings blanked, line by line in place."""

    def blank(match: re.Match) -> str:
        found = match.group(0)
        if found.startswith("/"):
            return re.sub(r"[^\n]", " ", found)
        return found[0] + re.sub(r"[^\n]", " ", found[1:-1]) + found[-1]

    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.DOTALL)
