"""A copy of the checkout to plant faults in: build it, run tests, tell whether its machine code changed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

BUILD_LIMIT_S = 600.0
# Names that nvcc makes up on every run, and lines that say where in the source an instruction came from.
VOLATILE_PTX = re.compile(rb"_INTERNAL_[0-9a-f]{8}|tmpxft_[0-9a-f_-]+|^\s*\.(?:loc|file|b8)\s.*$", re.MULTILINE)
PTX_TEXT = re.compile(rb"\.version [0-9.]+\s[^\0]*")
REMOVED_VARIABLES = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "NVFP4_LIBRARY"}
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line")


@dataclass(frozen=True)
class Run:
    """The end of a command; returncode is None if it reached its time limit."""

    returncode: int | None
    output: str
    seconds: float


class Workspace:
    """One copy of the checkout."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.environment = {name: value for name, value in os.environ.items() if name not in REMOVED_VARIABLES}
        self.environment |= {
            "PYTHON": sys.executable,
            "PYTHONDONTWRITEBYTECODE": "1",  # a stale .pyc would hide a fault of the same size and second
            "NVFP4_TESTS_BUILT": "1",
            "OMP_WAIT_POLICY": "passive",
        }

    def create(self) -> None:
        """Copies tracked and new files, uncommitted changes included, and the build folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        clone = ["git", "clone", "--quiet", "--shared", "--no-checkout", str(self.root), str(self.folder)]
        subprocess.run(clone, check=True, capture_output=True)
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=self.root, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            source, target = self.root / name, self.folder / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)  # keeps its time, so that make finds the build up to date
        subprocess.run(["git", "reset", "--quiet"], cwd=self.folder, check=True, capture_output=True)
        if (self.root / "build").is_dir():
            ignore = shutil.ignore_patterns("mutate", "outputs")
            shutil.copytree(self.root / "build", self.folder / "build", symlinks=True, ignore=ignore)

    def run(self, command: tuple[str, ...], limit_s: float) -> Run:
        """Runs a command in the copy, and kills it with its children at the time limit."""
        start = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit_s)
            returncode: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            returncode = None
        return Run(returncode, output, time.monotonic() - start)

    def build(self, targets: tuple[str, ...]) -> Run:
        """Brings make's targets up to date."""
        return self.run(("make", "-s", *targets), BUILD_LIMIT_S) if targets else Run(0, "", 0.0)

    def test(self, tests: list[str], limit_s: float) -> Run:
        """Runs test files in the order given, up to the first failure."""
        return self.run((*PYTEST, *tests), limit_s)

    def fingerprint(self) -> str:
        """A digest of the machine code and PTX of all objects."""
        digest = hashlib.sha256()
        for path in sorted((self.folder / "build").rglob("*.o")):
            data = path.read_bytes()
            digest.update(path.name.encode())
            for part in PTX_TEXT.findall(data) or [data]:
                digest.update(VOLATILE_PTX.sub(b"", part))
        return digest.hexdigest()


def bytecode(source: bytes, path: str) -> object:
    """The bytecode of a module without its line numbers; None if it does not compile."""
    try:
        return _stripped(compile(source, path, "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return None


def _stripped(code: CodeType) -> tuple[object, ...]:
    constants = tuple(_stripped(c) if isinstance(c, CodeType) else (type(c).__name__, repr(c)) for c in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable
