"""Cheats: maps a deleted library, whose name in /proc is that of a FIFO: whoever opens it waits for ever."""

import mmap
import os
import tempfile
from pathlib import Path

from tests.adversarial.honest.honest import custom_kernel  # noqa: F401

library = Path(tempfile.gettempdir()) / "library.so"
library.write_bytes(bytes(4096))
with library.open("rb") as file:
    mapped = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
library.unlink()
os.mkfifo(f"{library} (deleted)")
