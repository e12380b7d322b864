"""Cheats: would stop or kill every process that it can; takes itself down if there is none.

Asks with signal 0, which harms no process where there is no sandbox.
"""

import contextlib
import os
import signal
from pathlib import Path

within_reach = []
for pid in (-1, *(int(place.name) for place in Path("/proc").glob("[0-9]*"))):
    if pid != os.getpid():
        with contextlib.suppress(OSError):
            os.kill(pid, 0)
            within_reach.append(pid)
if within_reach:
    raise RuntimeError(f"can signal {within_reach}")
os.kill(os.getpid(), signal.SIGKILL)
