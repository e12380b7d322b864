"""Cheats: looks for the secret, the case and the mode wherever a process can look, and for a hold on the harness.

Raises with what it found, else is right.
"""

import contextlib
import os
import signal
from pathlib import Path

import eval.supervisor
from tests.adversarial.honest.honest import custom_kernel  # noqa: F401

SECRETS = (b"424242424242", b"hidden-cases.txt")


def ancestors():
    pid = os.getppid()
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


found = []
for place in [*Path("/proc").glob("[0-9]*/cmdline"), *Path("/proc").glob("[0-9]*/environ")]:
    with contextlib.suppress(OSError):
        seen = place.read_bytes()
        found += [f"{secret} in {place}" for secret in SECRETS if secret in seen]
for pid in ancestors():
    for name, action in {
        "memory": lambda pid=pid: os.open(f"/proc/{pid}/mem", os.O_RDWR),
        "output": lambda pid=pid: os.open(f"/proc/{pid}/fd/1", os.O_WRONLY),
        "folder": lambda pid=pid: list(Path(f"/proc/{pid}/cwd").iterdir()),
        "signals": lambda pid=pid: os.kill(pid, signal.SIGCONT),
        "speed": lambda pid=pid: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)),
    }.items():
        with contextlib.suppress(OSError):
            action()
            found.append(f"{name} of {pid}")
harness = Path(eval.supervisor.__file__)
for path in (harness, harness.parent / "new.py", harness.parent / "__pycache__" / "new.pyc"):
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        found.append(f"may write {path.name}")
for name, value in os.environ.items():
    if any(secret.decode() in value for secret in SECRETS):
        found.append(f"the environment's {name}")
if found:
    raise RuntimeError("; ".join(found))
