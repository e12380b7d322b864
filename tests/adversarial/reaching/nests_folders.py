"""Cheats: leaves folders nested deeper than any recursion or path goes, in a run folder that nobody may enter."""

import contextlib
import os
import tempfile
from pathlib import Path

from tests.adversarial.honest.honest import custom_kernel  # noqa: F401

here, scratch = Path.cwd(), Path(tempfile.gettempdir())
os.chdir(scratch)
for _ in range(2100):
    Path("d").mkdir()
    os.chdir("d")
os.chdir(here)
for folder in (scratch, scratch.parent, scratch.parent.parent):
    with contextlib.suppress(OSError):  # read-only where the worker has mounts of its own
        folder.chmod(0)
