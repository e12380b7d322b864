"""A seccomp filter: no access to other processes' memory, no new namespaces, no signals to the harness's processes.

The filter is classic BPF over struct seccomp_data (linux/seccomp.h, linux/filter.h). It refuses with EPERM, so that
programs that can do without such a call continue.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Sequence

from eval.sandbox import kernel

_SET_MODE_FILTER = 1
_FILTER_FLAG_TSYNC = 1
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h
_X32_BIT = 0x40000000  # x86-64's second table of numbers, for 32-bit pointers

# BPF: load a word at an absolute offset, jump, jump if equal, jump if any bit of a mask is set, return.
_LOAD, _JUMP, _JUMP_EQUAL, _JUMP_ANY, _RETURN = 0x20, 0x05, 0x15, 0x45, 0x06
_AT_NUMBER, _AT_ARCH, _AT_ARGUMENTS = 0, 4, 16
_ARGUMENT_BYTES = 8

REFUSED = (
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp",
    "perf_event_open", "bpf", "userfaultfd", "io_uring_setup", "add_key", "request_key", "keyctl", "mount", "umount2",
    "mount_setattr", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "pivot_root", "chroot",
    "setns", "unshare", "open_by_handle_at", "move_pages", "migrate_pages",
)  # fmt: skip
# Those that name a process, by the argument that does: refused for the protected ones.
_BY_PROCESS = {
    "kill": 0, "tkill": 0, "tgkill": 0, "rt_sigqueueinfo": 0, "rt_tgsigqueueinfo": 0, "prlimit64": 0,
    "sched_setaffinity": 0, "sched_setparam": 0, "sched_setscheduler": 0, "sched_setattr": 0, "setpriority": 1,
    "ioprio_set": 1,
}  # fmt: skip
_EVERY_PROCESS = -1  # of kill


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def _instruction(code: int, k: int, if_true: int = 0, if_false: int = 0) -> _Instruction:
    return _Instruction(code, if_true, if_false, k & 0xFFFFFFFF)


def _refuse(code: int = errno.EPERM) -> _Instruction:
    return _instruction(_RETURN, _ERRNO | code)


def program(machine: str, protected: Sequence[int], signals_scoped: bool) -> list[_Instruction]:
    """The filter: `protected` are the processes (positive) and groups (negative) that no call may name."""
    allow = _instruction(_RETURN, _ALLOW)
    head = [_instruction(_LOAD, _AT_ARCH), _instruction(_JUMP_EQUAL, _AUDIT_ARCH[machine], 1, 0)]
    head += [_refuse(errno.ENOSYS), _instruction(_LOAD, _AT_NUMBER)]  # another architecture's calls are not there
    if machine == "x86_64":
        head += [_instruction(_JUMP_ANY, _X32_BIT, 0, 1), _refuse(errno.ENOSYS)]
    for name in REFUSED if signals_scoped else (*REFUSED, "pidfd_send_signal"):
        head += [_instruction(_JUMP_EQUAL, kernel.number(name), 0, 1), _refuse()]
    # One block a place of the argument, after everything else; a jump to it may be longer than a conditional one's.
    blocks: dict[int, list[_Instruction]] = {}
    for argument in sorted(set(_BY_PROCESS.values())):
        # The low word: process numbers are ints.
        blocks[argument] = [_instruction(_LOAD, _AT_ARGUMENTS + _ARGUMENT_BYTES * argument)]
        for process in (*protected, _EVERY_PROCESS):
            blocks[argument] += [_instruction(_JUMP_EQUAL, process, 0, 1), _refuse()]
        blocks[argument].append(allow)
    begin, at = {}, 2 * len(_BY_PROCESS) + 1  # from the first of the jumps
    for argument, block in blocks.items():
        begin[argument] = at
        at += len(block)
    jumps: list[_Instruction] = []
    for name, argument in _BY_PROCESS.items():
        jumps.append(_instruction(_JUMP_EQUAL, kernel.number(name), 0, 1))
        jumps.append(_instruction(_JUMP, begin[argument] - len(jumps) - 1))
    return [*head, *jumps, allow, *(x for block in blocks.values() for x in block)]


def restrict(protected: Sequence[int], signals_scoped: bool) -> str:
    """Puts every thread of this process under the filter. no_new_privs has to be on. Raises Refused.

    `signals_scoped`: whether something else (Landlock) keeps signals within the sandbox.
    """
    if kernel.MACHINE not in _AUDIT_ARCH:
        raise kernel.Refused(f"no filter for {kernel.MACHINE}")
    text = program(kernel.MACHINE, protected, signals_scoped)
    instructions = (_Instruction * len(text))(*text)
    filled = _Program(len(text), instructions)
    kernel.call("seccomp", _SET_MODE_FILTER, _FILTER_FLAG_TSYNC, ctypes.byref(filled))
    return f"{len(REFUSED)} system calls refused"
