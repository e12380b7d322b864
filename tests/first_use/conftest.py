"""A newcomer's machine: a checkout at a path with a space, an empty HOME, no torch, no rights."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

OTHER_USER = 65534
AS_OTHER = ("setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups")
# For a Python that only root can read: root without the rights to pass over permissions.
AS_POWERLESS_ROOT = ("setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search,-fowner,-chown")
# One small case per file instead of ten and four, so that a command takes seconds.
CASES = {
    "dual_gemm": "m: 128; n: 128; k: 128; l: 1; seed: 1111\n",
    "gemm": "m: 128; n: 256; k: 384; l: 1; seed: 1111\n",
}
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": "/dev/null"}


class Newcomer:
    """Runs commands in the checkout, as a user without rights if the tests run as root."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.checkout, self.built = folder, folder / "a checkout", folder / "built"
        self.python = folder / "bare" / "bin" / "python3"
        folder.chmod(0o755)
        self.drop: tuple[str, ...] = ()
        if os.geteuid() == 0:
            probe = ["sh", "-c", f"'{sys.executable}' -c ''"]  # through a shell, which has its user's rights only
            asked = subprocess.run([*AS_OTHER, *probe], capture_output=True, check=False)
            self.drop = AS_OTHER if asked.returncode == 0 else AS_POWERLESS_ROOT
        self.clone(root)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "bare"], check=True)
        for name in ("home", "built"):
            (folder / name).mkdir()
            self.own(folder / name)
        self.write_protect(True)

    def clone(self, root: Path) -> None:
        """Clones the checkout, uncommitted changes included, and commits one small case per file."""
        subprocess.run(["git", "clone", "--quiet", root, self.checkout], check=True)
        listing = ["git", "-C", root, "diff", "-z", "--name-only", "HEAD"]
        changed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
        for name in filter(None, changed.split("\0")):
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            if (root / name).is_file():
                shutil.copy(root / name, self.checkout / name)
            else:
                (self.checkout / name).unlink(missing_ok=True)
        for problem, case in CASES.items():
            for cases in ("test.txt", "benchmark.txt"):
                (self.checkout / "reference/problems" / problem / cases).write_text(case)
        author = ["-c", "user.name=a test", "-c", "user.email=test@localhost"]
        for command in (["add", "--all"], [*author, "commit", "--quiet", "-m", "Keep one small case"]):
            subprocess.run(["git", "-C", self.checkout, *command], check=True)

    def own(self, path: Path) -> None:
        """Gives a tree to the newcomer."""
        if self.drop == AS_OTHER:
            subprocess.run(["chown", "-R", f"{OTHER_USER}:{OTHER_USER}", path], check=True)

    def write_protect(self, on: bool) -> None:
        """Makes the checkout read-only, or gives it to the newcomer."""
        if not on:
            self.own(self.checkout)
        subprocess.run(["chmod", "-R", "a-w" if on else "u+w", self.checkout], check=True)

    def run(self, command: str, with_torch: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a shell command in the checkout."""
        variables = {
            "PATH": f"{self.python.parent}:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "home"),
            "GPU": "0",
            "CFLAGS": "-O0",  # a build takes 2 s of CPU instead of 6
            "PYTHONDONTWRITEBYTECODE": "1",
            "NVFP4_VENV": str(self.folder / "home" / "env"),
        }
        variables |= {"PYTHON": sys.executable} if with_torch else OFFLINE
        return subprocess.run(
            [*self.drop, "sh", "-c", command],
            cwd=self.checkout,
            env=variables | environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=500,
        )


@pytest.fixture(scope="package")
def newcomer(root):
    """One newcomer for all tests; the checkout is read-only until a test changes that."""
    if not (root / ".git").exists() or (os.geteuid() == 0 and not shutil.which("setpriv")):
        pytest.skip("no git checkout, or no setpriv to drop rights with")
    folder = Path(tempfile.mkdtemp(prefix="nvfp4-first-use-"))
    try:
        yield Newcomer(root, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
