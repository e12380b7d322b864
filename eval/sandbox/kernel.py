"""System calls and prctl through ctypes, with their numbers on x86-64 and AArch64."""

from __future__ import annotations

import ctypes
import os
import platform

MACHINE = platform.machine()

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

# System calls: (x86-64, AArch64), from the kernel's syscall_64.tbl and asm-generic/unistd.h; -1: there is none.
_NUMBERS = {
    "add_key": (248, 217), "bind": (49, 200), "bpf": (321, 280), "capset": (126, 91), "clone": (56, 220),
    "clone3": (435, 435),
    "fanotify_init": (300, 262), "fcntl": (72, 25), "inotify_init": (253, -1), "inotify_init1": (294, 26),
    "io_setup": (206, 0), "io_uring_setup": (425, 425), "ioctl": (16, 29), "ioprio_set": (251, 30), "kcmp": (312, 272),
    "keyctl": (250, 219), "kill": (62, 129), "landlock_add_rule": (445, 445), "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446), "migrate_pages": (256, 238), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "move_pages": (279, 239), "mq_notify": (244, 184), "mq_open": (240, 180),
    "mq_timedreceive": (243, 183), "mq_timedsend": (242, 182), "mq_unlink": (241, 181), "msgctl": (71, 187),
    "msgget": (68, 186), "msgrcv": (70, 188), "msgsnd": (69, 189), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438), "prlimit64": (302, 261),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "ptrace": (101, 117), "request_key": (249, 218), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "seccomp": (317, 277),
    "semctl": (66, 191), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192), "setpriority": (141, 140),
    "shmat": (30, 196), "shmctl": (31, 195), "shmget": (29, 194), "socket": (41, 198), "socketpair": (53, 199),
    "unshare": (272, 97), "userfaultfd": (323, 282),
}  # fmt: skip
_COLUMN = {"x86_64": 0, "aarch64": 1}.get(MACHINE)

_libc = ctypes.CDLL(None, use_errno=True)


class Refused(OSError):
    """A system call that failed; the message names it and the reason."""


def number(name: str) -> int:
    """The number of a system call on this machine. Raises Refused on an architecture that the table lacks."""
    if _COLUMN is None:
        raise Refused(f"{name}: its number is unknown on {MACHINE}")
    return _NUMBERS[name][_COLUMN]


def _checked(name: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise Refused(code, f"{name}: {os.strerror(code)}")
    return result


def call(name: str, *arguments: object) -> int:
    """Makes a system call with integers, or ctypes objects by reference. Raises Refused."""
    words = [ctypes.c_long(x) if isinstance(x, int) else x for x in arguments]
    return _checked(name, _libc.syscall(ctypes.c_long(number(name)), *words))


def prctl(option: int, *arguments: int) -> int:
    """Calls prctl(2) with unused arguments zero. Raises Refused."""
    words = [ctypes.c_ulong(x) for x in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(f"prctl({option})", _libc.prctl(ctypes.c_int(option), *words))
