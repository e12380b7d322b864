"""Python objects that the library itself reads: random wrong ones are refused and nothing else changes."""

from __future__ import annotations

import random
import sys

import pytest
import torch

from submission import group_submission as shim
from tests.submission.grouped.test_group_shim import Int, Tensor, changed, problem

pytestmark = pytest.mark.skipif(shim._call_python is None, reason="this torch's tensors are read by the shim")
PAIRS = 300
WRITTEN = 7.0
WIDTHS = {0: 3, 2: 2, 3: 4}  # members of a group in each list that is read
PLACES = [
    *((which,) for which in WIDTHS),
    *((which, group) for which in WIDTHS for group in range(3)),
    *((which, group, member) for which, width in WIDTHS.items() for group in range(3) for member in range(width)),
]


class Items(list):
    """A list whose length and members are what its own code says."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        raise KeyError(index)


def wrong_ones(data):
    """Objects to put in another's place: of other types, sizes and layouts, and right ones of another place."""
    a, b, c = data[0][0]
    factors = data[2][0][0]
    freed = torch.empty(40, 24, 1, dtype=c.dtype)
    freed.untyped_storage().resize_(0)
    return [
        None, True, 0, -1, 7, 64, 2**31, 2**63, 2**64, 1.5, "x", b"x", Int(64), [], (), {}, set(), object, [None] * 300,
        Items(data[0]), type("Pair", (tuple,), {})(data[0][0]), [[c, c, c]] * 256, tuple(data[3]), (2**62, 1, 64, 1),
        (40, 24, 2**62, 1), (0, 24, 192, 1), a, b, c, factors, c.as_subclass(Tensor), torch.nn.Parameter(c.clone()),
        torch._neg_view(c), freed, c.to("meta"), c.expand(40, 24, 3), c.as_strided((40, 24, 1), (0, 1, 1)),
        c.as_strided((40, 24, 1), (1, 40, 1)), c[:0], c.view(torch.int16), c.bfloat16(), a.view(torch.uint8),
        c.to_sparse(), torch.empty(0), torch.empty(41, 24, 1, dtype=c.dtype), torch.empty([1] * 9, dtype=c.dtype),
        torch.complex(torch.ones(2), torch.ones(2)).conj(),
    ]  # fmt: skip


def taken(data):
    """Every object that the library may have looked at."""
    for members in data:
        yield members
        for group in members if isinstance(members, (list, tuple)) else ():
            yield group
            yield from group if isinstance(group, (list, tuple)) else ()


def test_wrong_objects_are_refused_and_nothing_else_changes():
    right, refused, draw = problem(full=False), 0, random.Random(16)
    changes = [(place, value) for place in PLACES for value in wrong_ones(right)]
    for which in [*([one] for one in changes), *(draw.choices(changes, k=2) for _ in range(PAIRS))]:
        data = right
        try:
            for place, value in which:
                data = changed(data, place, value)
            shim._check_groups(data)
            continue  # the random change happens to be valid
        except (IndexError, KeyError, TypeError, ValueError):
            refused += 1
        for group in right[0]:
            group[2].fill_(WRITTEN)
        objects = [one for one in taken(data) if isinstance(one, (list, tuple, torch.Tensor))]
        counts = [sys.getrefcount(one) for one in (*objects, torch.Tensor)]
        negative = any(isinstance(c, torch.Tensor) and c.is_neg() for c in objects)  # the shim refuses negative views
        status = shim._call_python(shim._functions_address, data, 0)
        assert negative or status == shim._NOT_AS_EXPECTED, which
        assert [sys.getrefcount(one) for one in (*objects, torch.Tensor)] == counts
        assert negative or all((group[2] == WRITTEN).all() for group in right[0])
    assert refused > len(changes) // 2
