"""Cheats: maps libraries that hold up whoever opens them: one whose name in /proc is that of a FIFO, one whose name
leads to the kernel's log, where a reader waits, and one under a lease, for which the kernel waits 45 seconds."""

import contextlib
import fcntl
import mmap
import os
import signal
import tempfile
from pathlib import Path

from tests.adversarial.honest.honest import custom_kernel  # noqa: F401

folder = Path(tempfile.gettempdir())
library, log, leased = (folder / name for name in ("library.so", "log.so", "leased.so"))
for path in (library, log, leased):
    path.write_bytes(bytes(4096))
mapped = []
for path in (library, log):
    with path.open("rb") as file:
        mapped.append(mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ))
    path.unlink()
os.mkfifo(f"{library} (deleted)")
Path(f"{log} (deleted)").symlink_to("/proc/kmsg")
signal.signal(signal.SIGIO, signal.SIG_IGN)
held = os.open(leased, os.O_RDONLY)
also_mapped = mmap.mmap(held, 4096, prot=mmap.PROT_READ)
with contextlib.suppress(PermissionError):  # where there is no seccomp, it has the lease
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
