"""Random lists of groups for the GPU backends, one fault or two in most: each is refused in one line that names what is
wrong, before the runtime is asked to do anything, and the others are launched. c/abi_fuzz_grouped.c is for the CPU.
"""

from __future__ import annotations

import ctypes
import random

import pytest

from tests.submission.cpu_kit import ARGUMENT, BLOCKED, NULL_POINTER, OK, ROWS, UNAVAILABLE, UNSUPPORTED
from tests.submission.gpu.fake_gpu import CHIPS, GROUPED_BACKENDS, NUMBERS, QUEUE
from tests.submission.grouped.grouped_kit import MEMBERS, GroupedArgs, GroupStruct

LISTS = 1000
GROUP_BYTES = ctypes.sizeof(GroupStruct)
MOST = (2**31 - 1) // 8  # rows, columns or K that a GPU backend takes
WORKS = ("encode", "malloc", "free", "pool_create", "pool_set", "allow", "launch")  # what fake_cudart.c writes down
BAD_EXTENTS = (-1, -64, -(2**63), -(2**63) + 63)


class Lists:
    """A list of groups whose tensors lie far apart and which nothing reads."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self.rng, self.count = rng, rng.randint(1, 9)
        self.groups = (GroupStruct * self.count)()
        for i, group in enumerate(self.groups):
            group.m, group.n, group.k = rng.randint(1, 700), rng.randint(1, 700), 64 * rng.randint(1, 30)
            for j, member in enumerate(MEMBERS):
                setattr(group, member, (5 * i + j + 1) << 50)
        self.args = GroupedArgs(
            ctypes.sizeof(GroupedArgs), NUMBERS[name], list(CHIPS).index(name), rng.choice((BLOCKED, ROWS)), self.count
        )
        self.args.group_bytes, self.args.group, self.args.queue = GROUP_BYTES, ctypes.addressof(self.groups), QUEUE

    def call(self, fake) -> tuple[int, str]:
        fake.core.fake_clear_log()
        status = fake.core.custom_kernel_grouped(ctypes.byref(self.args))
        return status, fake.core.custom_kernel_message().decode()

    def spoil_a_group(self) -> tuple[str, set[int]]:
        """Makes a group invalid; returns the start of a message about it, and the statuses that it may have."""
        rng, index = self.rng, self.rng.randrange(self.count)
        group, member = self.groups[index], rng.choice(MEMBERS)
        where = f"group[{index}]."
        match rng.randrange(8):
            case 0:
                setattr(group, letter := rng.choice("mnk"), rng.choice(BAD_EXTENTS))
                return where + letter, {ARGUMENT}
            case 1:
                setattr(group, letter := rng.choice("nk"), 0)
                return where + letter, {ARGUMENT}
            case 2:
                group.k += rng.randint(1, 15)
                return where + "k", {ARGUMENT}
            case 3:
                setattr(group, member, None)
                return where + member, {NULL_POINTER}
            case 4:
                setattr(group, member, getattr(group, member) + rng.randint(1, 15))
                return where + member, {ARGUMENT}
            case 5:  # c is the last tensor that is looked at
                setattr(group, letter := rng.choice("mn"), 64 * (MOST // 64 + 1 + rng.randint(0, 2**20)))
                return where, {UNSUPPORTED, ARGUMENT}
            case 6:
                group.m = group.n = 2**32
                return where, {ARGUMENT}
            case _:
                other = self.groups[rng.randrange(self.count)]
                group.c = getattr(other, rng.choice([name for name in MEMBERS if name != "c"]))
                return "group[", {ARGUMENT}

    def spoil_the_call(self) -> tuple[str, set[int]]:
        """Makes an argument of the call invalid; returns the same."""
        rng, args = self.rng, self.args
        match rng.randrange(8):
            case 0:
                args.struct_bytes = rng.choice((0, 1, 39, 41, 47, 1025, 2**32 - 1))
                return "args", {ARGUMENT}
            case 1:
                args.groups = rng.choice((0, -1, -(2**63), 65537, 2**63 - 1))
                return "groups is ", {ARGUMENT}
            case 2:
                args.group_bytes = rng.choice((0, 1, 63, 1025, 2**32 - 1))
                return "group", {ARGUMENT}
            case 3:
                args.reserved = rng.randint(1, 2**32 - 1)
                return "reserved is ", {ARGUMENT}
            case 4:
                args.group = None
                return "group is NULL", {NULL_POINTER}
            case 5:
                args.scale_layout = rng.choice((-1, 2, 2**31 - 1))
                return "scale_layout is ", {ARGUMENT}
            case 6:
                own = args.device
                args.device = rng.choice([-(2**31), -2, 3, 79, 2**31 - 1, *(set(range(len(CHIPS))) - {own})])
                if args.device < 0:
                    return "device is ", {ARGUMENT}
                return f"backend {[*CHIPS][own]} cannot run here: CUDA device {args.device}", {UNAVAILABLE}
            case _:
                args.backend = rng.choice((-1, 5, -(2**31), 2**31 - 1))
                return "backend is ", {ARGUMENT}

    def bend(self) -> None:
        """Makes some groups unusual but valid: they have no rows, and any pointers."""
        for group in self.groups:
            if self.rng.random() < 0.3:
                group.m = 0
                setattr(group, self.rng.choice(MEMBERS), self.rng.choice((None, 1, 2**64 - 1)))


@pytest.fixture(autouse=True)
def no_tile(monkeypatch):
    monkeypatch.delenv("NVFP4_GROUPED_CONFIG", raising=False)


@GROUPED_BACKENDS
@pytest.mark.parametrize("seed", range(2))
def test_a_bad_list_is_refused_in_one_line_before_the_runtime_does_anything(fake, name, seed):
    rng = random.Random(f"{name} {seed}")
    kinds = [0, 0, 0]
    for number in range(LISTS):
        lists = Lists(rng, name)
        faults = rng.choice((0, 1, 1, 2))
        if faults == 0:
            lists.bend()
        expected = [spoil() for spoil in rng.sample((lists.spoil_a_group, lists.spoil_the_call), faults)]
        status, message = lists.call(fake)
        kinds[faults] += 1
        what = (number, expected, status, message)
        asked = fake.log(*WORKS)
        if faults == 0:
            rows = any(group.m for group in lists.groups)
            assert status == OK and bool(fake.log("launch")) == rows, what
            continue
        assert status in set().union(*(statuses for _, statuses in expected)), what
        assert any(message.startswith(begin) for begin, _ in expected) and "\n" not in message, what
        assert asked == [], what
    assert all(count > LISTS / 8 for count in kinds)
