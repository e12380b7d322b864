"""Enters the sandbox, or not, and tries everything, most of it on the process that is its parent; says how it went."""

import ctypes
import fcntl
import json
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from multiprocessing import shared_memory
from pathlib import Path

from eval import sandbox
from eval.sandbox import kernel, landlock, mounts, seccomp

how, scratch, elsewhere, listening = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
victim = os.getppid()
FAN_REPORT_FID = 0x200
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602
requests = ctypes.c_ulong()
shared_memory_device = Path("/dev/shm").stat().st_dev


def refuse(*_, **__):
    raise kernel.Refused(38, "not in this kernel")


if how == "without Landlock":
    landlock.restrict = refuse
if how == "without seccomp":
    seccomp.restrict = refuse
if how == "without mounts":
    mounts.restrict = refuse
if how == "an old Landlock":
    landlock.abi = lambda: 1
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, 4096, 0o1600)
libc.shmat(segment, None, 0)
libc.shmctl(segment, 0, None)  # removed when this process ends
state = sandbox.State()
if how != "outside":
    folder = os.open(scratch, os.O_RDONLY)
    state = sandbox.enter(scratch, "cuda" if how == "on CUDA" else "cpu", folder, Path(sys.argv[5]))
    if how != "on CUDA":
        sandbox.close_sockets(state)


def opened(path, mode):
    with Path(path).open(mode):
        pass


def connect(name):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(name)


def send_from_pair():
    """A datagram pair can be connected anew, to any path."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(scratch / "heard"))
        (scratch / "heard").rename(scratch / f"heard-{os.getpid()}")
        one.sendto(b"x", str(scratch / f"heard-{os.getpid()}"))


def lease():
    with (elsewhere / "there").open() as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)


def have_it_signalled():
    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETOWN, victim)
    os.close(read)
    os.close(write)


def system_v():
    found = libc.shmget(0, 4096, 0o1600)
    if found < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    libc.shmctl(found, 0, None)


def system_v_by_number():
    if libc.shmat(segment, None, 0) == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "shmat")


def new_namespace():
    child = libc.syscall(ctypes.c_long(kernel.number("clone")), ctypes.c_ulong(0x10000000 | 17), None, None, None, None)
    if child == 0:
        os._exit(0)
    if child < 0:
        raise OSError(ctypes.get_errno(), "clone")
    os.waitpid(child, 0)


def share_memory():
    shared_file = Path("/dev/shm") / f"left-{os.getpid()}"
    shared_file.write_text("")
    if shared_file.stat().st_dev != shared_memory_device:
        raise OSError("in a file system of its own")
    shared_file.unlink()


def move_it():
    before = os.sched_getaffinity(victim)
    os.sched_setaffinity(victim, {min(before)} if len(before) > 1 else before)
    moved = len(before) == 1 or os.sched_getaffinity(victim) != before
    os.sched_setaffinity(victim, before)
    if not moved:
        raise OSError("it is where it was")


def read_what_others_read(path):
    """Opens it as a reader that takes something away would: without waiting."""
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))


def checked(name, *arguments):
    result = libc.syscall(kernel.number(name), *map(ctypes.c_long, arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def queue_signals():
    number = signal.SIGRTMIN
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        for _ in range(10000):
            if libc.sigqueue(os.getpid(), number, None) < 0:
                raise OSError(ctypes.get_errno(), "sigqueue")
    finally:
        while signal.sigtimedwait([number], 0):
            pass


def signal_its_thread():
    if libc.tgkill(victim, victim, 0) < 0:
        raise OSError(ctypes.get_errno(), "tgkill")


def change_flags(folder):
    opened = os.open(folder, os.O_RDONLY)
    flags = fcntl.ioctl(opened, FS_IOC_GETFLAGS, bytes(8))
    fcntl.ioctl(opened, FS_IOC_SETFLAGS, flags)
    os.close(opened)


def take_name():
    one, other = socket.socketpair()
    with one, other:
        one.bind(f"\0taken-{os.getpid()}")


def trace():
    child = subprocess.Popen(["sleep", "9"])
    try:
        checked("ptrace", 0x4206, child.pid, 0, 0)  # PTRACE_SEIZE
    finally:
        child.kill()
        child.wait()


COMPILE = 'echo "int x;" > $TMPDIR/a.c && cd $TMPDIR && cc -shared -o a.so a.c'
TRIED = {
    "read its environment": lambda: Path(f"/proc/{victim}/environ").read_bytes(),
    "open its memory": lambda: opened(f"/proc/{victim}/mem", "r+b"),
    "look at its descriptors": lambda: Path(f"/proc/{victim}/fd/0").readlink(),
    "write to its descriptors": lambda: opened(f"/proc/{victim}/fd/1", "w"),
    "read its maps": lambda: Path(f"/proc/{victim}/maps").read_text(),
    "signal it": lambda: os.kill(victim, 0),
    "signal its group": lambda: os.killpg(os.getpgid(victim), 0),
    "signal everything": lambda: os.kill(-1, 0),
    "signal its thread": signal_its_thread,
    "signal it by descriptor": lambda: signal.pidfd_send_signal(os.pidfd_open(victim), 0),
    "limit it": lambda: resource.prlimit(victim, resource.RLIMIT_CORE),
    "schedule it": lambda: os.sched_setscheduler(victim, os.SCHED_OTHER, os.sched_param(0)),
    "slow its user": lambda: os.setpriority(os.PRIO_USER, 0, 0),
    "slow it": lambda: os.setpriority(os.PRIO_PROCESS, victim, os.getpriority(os.PRIO_PROCESS, victim)),
    "move it": move_it,
    "read from a pipe elsewhere": lambda: read_what_others_read(elsewhere / "pipe"),
    "read from a pipe beside it": lambda: read_what_others_read(Path(sys.argv[5]).with_name("pipe")),
    "read from a pipe deep in the home folder": lambda: read_what_others_read(Path.home() / "deep" / "in" / "pipe"),
    "read a file of the user": lambda: (Path.home() / "deep" / "file").read_text(),
    "read from a terminal": lambda: read_what_others_read(sys.argv[6]),
    "read from another program's temporary file": lambda: (elsewhere / "there").read_text(),
    "trace a child": trace,
    "compare processes": lambda: checked("kcmp", os.getpid(), os.getpid(), 2, 0, 0),
    "read by process_vm_readv": lambda: checked("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0),
    "have it signalled by a pipe": have_it_signalled,
    "hold up who opens a file": lease,
    "watch files": lambda: os.close(checked("inotify_init1", 0)),
    "watch files of all kinds": lambda: os.close(checked("fanotify_init", FAN_REPORT_FID, 0)),
    "take requests that all share": lambda: checked("io_setup", 1, ctypes.addressof(requests)),
    "queue ten thousand signals": queue_signals,
    "read a device's files": lambda: next(Path("/sys/devices/platform").glob("*/modalias")).read_text(),
    "connect to an abstract socket": lambda: connect("\0" + listening),
    "connect to a socket with a path": lambda: connect(str(elsewhere.parent / "socket")),
    "send to a path from a pair": send_from_pair,
    "have a socket of the network": lambda: socket.socket().close(),
    "keep System V memory": system_v,
    "use System V memory by its number": system_v_by_number,
    "make a namespace": new_namespace,
    "leave a file in shared memory": share_memory,
    "change a mode elsewhere": lambda: (elsewhere / "there").chmod(0o600),
    "change times elsewhere": lambda: os.utime(elsewhere / "there", (1, 1)),
    "write elsewhere": lambda: (elsewhere / "new").write_text(""),
    "change a file elsewhere": lambda: opened(elsewhere / "there", "r+"),
    "remove a file elsewhere": lambda: (elsewhere / "gone").unlink(),
    "make a folder elsewhere": lambda: (elsewhere / "folder").mkdir(),
    "link elsewhere": lambda: (elsewhere / "link").symlink_to("/"),
    "change a mode of the kernel's": lambda: Path("/proc/uptime").chmod(0o444),
    "change a mode of a device's": lambda: Path("/dev/null").chmod(0o666),
    "change a flag of its folder": lambda: change_flags(scratch),
    "take a name from others' sockets": take_name,
    "write a core": lambda: 1 / (resource.getrlimit(resource.RLIMIT_CORE)[1] > 1),  # 1: not to a program either
    "make a file of a terabyte": lambda: os.truncate(scratch / "file", 1 << 40),
}
WORKS = {
    "write in the scratch folder": lambda: (scratch / "new").write_text("x"),
    "write to a temporary file": lambda: opened(tempfile.mkstemp()[1], "w"),
    "write to /dev/null": lambda: opened("/dev/null", "w"),
    "share memory": lambda: shared_memory.SharedMemory(create=True, size=9).unlink(),
    "have semaphores": lambda: multiprocessing.get_context("spawn").Lock(),
    "end its own child": lambda: (child := subprocess.Popen(["sleep", "9"]), child.kill(), child.wait()),
    "signal itself": lambda: os.kill(os.getpid(), 0),
    "signal its own group": lambda: os.killpg(os.getpgid(0), 0),
    "move itself": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
    "limit itself": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    "have connected pairs": lambda: [end.close() for end in socket.socketpair()],
    "import what lies beside it": lambda: Path(sys.argv[5]).with_name("beside.py").read_text(),
    "read what lies in a folder beside it": lambda: (Path(sys.argv[5]).parent / "more" / "file").read_text(),
    "have threads": lambda: (one := threading.Thread(target=int), one.start(), one.join()),
    "read files": lambda: Path("/etc/passwd").read_text(),
    "compile": lambda: subprocess.run(["sh", "-c", COMPILE], check=True, capture_output=True),
}
ON_CUDA_ALONE = {"name its threads": lambda: Path(f"/proc/self/task/{os.getpid()}/comm").write_text("worker")}
os.setsid()
(scratch / "file").write_text("")
said = {}
for name, action in {**TRIED, **WORKS, **ON_CUDA_ALONE}.items():
    try:
        action()
        said[name] = ""
    except (OSError, ValueError, ZeroDivisionError, subprocess.CalledProcessError) as error:
        said[name] = f"{type(error).__name__}: {error}"
print(
    json.dumps(
        {
            "parts": state.parts,
            "lacking": state.lacking,
            "text": state.text(),
            "tried": list(TRIED),
            "works": list(WORKS),
            "said": said,
            "devices": sorted(path.name for path in Path("/dev").iterdir()),
            "environment": dict(os.environ),
        }
    )
)
