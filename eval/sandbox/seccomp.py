"""A seccomp filter: no access to other processes' memory, limits or processors, no new namespaces.

What needs a capability, such as a mount, is not in it: the sandbox has none. Most signals are Landlock's.
The filter is classic BPF over struct seccomp_data (linux/seccomp.h, linux/filter.h). It refuses with EPERM, so that
programs that can do without such a call continue.
"""

from __future__ import annotations

import ctypes
import errno
import os

from eval.sandbox import kernel

_SET_MODE_FILTER = 1
_FILTER_FLAG_TSYNC = 1
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h

# BPF: load a word at an absolute offset, mask it, jump if equal, if larger, if any bit of a mask is set, return.
_LOAD, _AND, _JUMP_EQUAL, _JUMP_LARGER, _JUMP_ANY, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
_AT_NUMBER, _AT_ARCH, _AT_ARGUMENTS = 0, 4, 16
_ARGUMENT_BYTES = 8
# mseal, of Linux 6.10, on every architecture. Later calls, which nobody has judged, have larger numbers, and so has
# x86-64's second table, for 32-bit pointers.
_NEWEST = 462

REFUSED = (
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp",
    "perf_event_open", "bpf", "userfaultfd", "io_uring_setup", "add_key", "request_key", "keyctl", "unshare",
    "open_by_handle_at", "move_pages", "migrate_pages",
    # System V objects and message queues outlive every process; those of other programs are open to whoever guesses
    # a number or a name.
    "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl",
    "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify",
    # All programs share a small number of requests or of watches.
    "io_setup", "inotify_init", "inotify_init1", "fanotify_init",
)  # fmt: skip
# Call -> index of the argument that names a process. Allowed only if it names the calling thread (0) or the worker.
_OWN_ONLY = {
    "prlimit64": 0, "sched_setparam": 0, "sched_setscheduler": 0, "sched_setattr": 0, "setpriority": 1, "ioprio_set": 1,
}  # fmt: skip
# The first argument of these must say that the other one is a process, not a group or a user.
_WHICH = {"setpriority": 0, "ioprio_set": 1}
# CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID and NET (linux/sched.h).
_NEW_NAMESPACES = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 1, 5, 0xF
# Values of an argument: every process (kill); commands that have another process signalled (F_SETOWN, F_SETOWN_EX,
# F_NOTIFY, FIOSETOWN, SIOCSPGRP) or that hold up whoever opens a file (F_SETLEASE).
_VALUES = {"kill": (0, (-1,)), "fcntl": (1, (8, 15, 1024, 1026)), "ioctl": (1, (0x8901, 0x8902))}
# Types of commands of ioctl, which change what a file system keeps of a file or folder: flags, projects, keys and
# subvolumes, so that the harness could neither move nor remove it.
_FILE_SYSTEM_TYPES, _TYPE_MASK = (ord("f") << 8, ord("X") << 8, 0x94 << 8), 0xFF00


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def _instruction(code: int, k: int, if_true: int = 0, if_false: int = 0) -> _Instruction:
    return _Instruction(code, if_true, if_false, k & 0xFFFFFFFF)


def _refuse(code: int = errno.EPERM) -> _Instruction:
    return _instruction(_RETURN, _ERRNO | code)


def _load(argument: int) -> _Instruction:
    # The low word: process ids, flags of clone and socket families are ints.
    return _instruction(_LOAD, _AT_ARGUMENTS + _ARGUMENT_BYTES * argument)


_ALLOWED = _instruction(_RETURN, _ALLOW)


def _head(machine: str) -> list[_Instruction]:
    """Refuses other architectures' and unknown calls, and loads the number of the call."""
    absent = _refuse(errno.ENOSYS)
    return [
        _instruction(_LOAD, _AT_ARCH), _instruction(_JUMP_EQUAL, _AUDIT_ARCH[machine], 1, 0), absent,
        _instruction(_LOAD, _AT_NUMBER), _instruction(_JUMP_LARGER, _NEWEST, 0, 1), absent,
    ]  # fmt: skip


def _rule(name: str, *body: _Instruction) -> list[_Instruction]:
    """Runs `body`, which returns, for one system call."""
    return [_instruction(_JUMP_EQUAL, kernel.number(name), 0, len(body)), *body]


def _one_of(first: int, second: int, code: int = errno.EPERM) -> list[_Instruction]:
    """Allows the call if the loaded word is one of the two; else it returns an error."""
    return [
        _instruction(_JUMP_EQUAL, first, 2, 0), _instruction(_JUMP_EQUAL, second, 1, 0), _refuse(code), _ALLOWED,
    ]  # fmt: skip


def program(machine: str, own: int) -> list[_Instruction]:
    """The filter of the worker with process id `own`."""
    rules = _head(machine)
    for name in REFUSED:
        rules += _rule(name, _refuse())
    rules += _rule("clone", _load(0), _instruction(_JUMP_ANY, _NEW_NAMESPACES, 0, 1), _refuse(), _ALLOWED)
    # Its flags are in memory, which a filter cannot read; the C library then uses clone.
    rules += _rule("clone3", _refuse(errno.ENOSYS))
    for name, (argument, values) in _VALUES.items():
        refused = [one for value in values for one in (_instruction(_JUMP_EQUAL, value, 0, 1), _refuse())]
        if name == "ioctl":
            types = [one for kind in _FILE_SYSTEM_TYPES for one in (_instruction(_JUMP_EQUAL, kind, 0, 1), _refuse())]
            refused += [_instruction(_AND, _TYPE_MASK), *types]
        rules += _rule(name, _load(argument), *refused, _ALLOWED)
    for name, argument in _OWN_ONLY.items():
        which = [_load(0), _instruction(_JUMP_EQUAL, _WHICH[name], 1, 0), _refuse()] if name in _WHICH else []
        rules += _rule(name, *which, _load(argument), *_one_of(0, own))
    # For others this does nothing and reports success: with OMP_PROC_BIND libgomp names threads that it has just made,
    # which no filter tells from those of other programs, and ends the process after an error.
    rules += _rule("sched_setaffinity", _load(0), *_one_of(0, own, code=0))
    return [*rules, _ALLOWED]


def sockets_program(machine: str) -> list[_Instruction]:
    """A filter that refuses sockets, except pairs that are connected to each other for good, and names for those."""
    unix_only = [_load(0), _instruction(_JUMP_EQUAL, _AF_UNIX, 1, 0), _refuse()]
    connected = [_load(1), _instruction(_AND, _SOCK_TYPE_MASK), *_one_of(_SOCK_STREAM, _SOCK_SEQPACKET)]
    none = [*_rule("socket", _refuse()), *_rule("bind", _refuse())]
    return [*_head(machine), *none, *_rule("socketpair", *unix_only, *connected), _ALLOWED]


def _install(text: list[_Instruction]) -> None:
    """Puts every thread of this process under a filter."""
    instructions = (_Instruction * len(text))(*text)
    filled = _Program(len(text), instructions)
    kernel.call("seccomp", _SET_MODE_FILTER, _FILTER_FLAG_TSYNC, ctypes.byref(filled))


def restrict() -> str:
    """Puts every thread of this process under the filter. no_new_privs has to be on. Raises Refused."""
    if kernel.MACHINE not in _AUDIT_ARCH:
        raise kernel.Refused(f"no filter for {kernel.MACHINE}")
    _install(program(kernel.MACHINE, os.getpid()))
    return f"{len(REFUSED)} system calls refused"


def refuse_sockets() -> None:
    """Puts every thread of this process under the filter of sockets. Raises Refused."""
    _install(sockets_program(kernel.MACHINE))
