"""Cheats: leaves a process behind, in another session and adopted by another parent; prints its process id."""

import os
import tempfile
import time
from pathlib import Path

from tests.adversarial.honest.honest import custom_kernel  # noqa: F401

note = Path(tempfile.gettempdir()) / "daemon"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        note.write_text(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
while not (note.exists() and note.read_text()):
    time.sleep(0.01)
print("daemon", note.read_text(), flush=True)
