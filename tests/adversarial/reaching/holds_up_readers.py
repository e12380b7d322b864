"""Cheats: maps libraries that hold up whoever opens them: one whose name in /proc is that of a FIFO, and one under a
lease, for which the kernel waits 45 seconds."""

import contextlib
import fcntl
import mmap
import os
import signal
import tempfile
from pathlib import Path

from tests.adversarial.honest.honest import custom_kernel  # noqa: F401

library, leased = (Path(tempfile.gettempdir()) / name for name in ("library.so", "leased.so"))
for path in (library, leased):
    path.write_bytes(bytes(4096))
with library.open("rb") as file:
    mapped = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
library.unlink()
os.mkfifo(f"{library} (deleted)")
signal.signal(signal.SIGIO, signal.SIG_IGN)
held = os.open(leased, os.O_RDONLY)
also_mapped = mmap.mmap(held, 4096, prot=mmap.PROT_READ)
with contextlib.suppress(PermissionError):  # where there is no seccomp, it has the lease
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
