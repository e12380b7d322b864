"""The grouped GEMM on the CPU: every instruction set against exact sums."""

from __future__ import annotations

import numpy as np
import pytest

from tests.submission.cpu_kit import BLOCKED, CODE, E4M3, GROUP, INTEGER_ISAS, LAYOUTS, ONE, ROWS, runs_here
from tests.submission.grouped.grouped_kit import (
    OFFICIAL,
    POWERS,
    Call,
    Group,
    assert_results,
    load,
    official,
    random_groups,
    run,
)

# Around a register tile of 4 rows, panels of 16 and 32 columns, a scale tile of 128 rows, a chunk of 512 of K.
EDGES = [(1, 1, 64), (3, 15, 192), (4, 16, 64), (5, 17, 576), (7, 31, 128), (8, 32, 64), (9, 33, 512), (2, 47, 64)]
EDGES += [(127, 49, 128), (130, 129, 64), (129, 64, 192), (40, 250, 1088), (1, 300, 64), (513, 5, 64)]


@pytest.fixture
def library(backend):
    return backend.library


def test_official_shapes_are_exact(library):
    for case in range(len(OFFICIAL)):
        groups, want = official(case)
        assert_results(run(library, groups), want)


@LAYOUTS
def test_groups_of_any_sizes_in_one_call_are_exact(library, layout):
    groups = random_groups(EDGES, seed=3)
    assert_results(run(library, groups, layout), [group.want() for group in groups])


@LAYOUTS
def test_a_group_without_rows_is_passed_over_whatever_its_pointers(library, layout):
    groups = random_groups([(5, 9, 64), (1, 33, 128), (3, 40, 64)], seed=5)
    call = Call(library, groups, layout)
    for empty in (0, 2):
        call.group[empty].m = 0
        for name in ("a", "b", "sfa", "sfb", "c"):
            setattr(call.group[empty], name, 1 if empty else None)
    assert call() == (0, "")
    assert_results([call.outputs[1].view(np.float16)], [groups[1].want()])
    assert (call.outputs[0] == 0x7BAD).all() and (call.outputs[2] == 0x7BAD).all()
    call.group[1].m = 0
    assert call() == (0, "")


@LAYOUTS
def test_a_nan_scale_spoils_its_row_or_column_of_its_group_alone(library, layout):
    groups = random_groups([(37, 45, 192), (6, 70, 64), (130, 20, 128)], seed=7)
    for which, group, row in ((0, 0, 36), (1, 1, 69), (1, 1, 3), (0, 2, 129)):
        groups[group].scales[which][row, -1] = 0x7F if row % 2 else 0xFF
    want = [group.want() for group in groups]
    assert [int(np.isnan(x).sum()) for x in want] == [45, 12, 20]
    assert_results(run(library, groups, layout), want)


def test_a_sum_is_rounded_once_to_the_nearest_and_ties_to_even(library):
    """Sums of two products, one of them a bit below fp16's last, by a row and a column of their own."""
    exponents = np.arange(-9, 9)
    powers = [int(np.flatnonzero(E4M3[:0x7F] == 2.0**e)[0]) for e in exponents]
    m, n, k = len(powers), 64, 64
    a, b = np.zeros((m, k)), np.zeros((n, k))
    sfa, sfb = np.full((m, 4), ONE), np.full((n, 4), ONE)
    a[:, 0], a[:, GROUP], a[:, 2 * GROUP] = CODE[6], CODE[1], CODE[0.5]
    sfa[:, 0] = sfa[:, 1] = sfa[:, 2] = powers
    b[:, 0] = b[:, GROUP] = b[:, 2 * GROUP] = np.arange(n) % 16
    sfb[:, 0], sfb[:, 1], sfb[:, 2] = 0x7E, np.array(powers)[np.arange(n) % m], ONE
    group = Group(a, b, sfa, sfb)
    sums = group.sums()
    assert (sums.astype(np.float32) == sums).all(), "not exact in fp32"
    assert (group.want() != sums).sum() > 100 and np.isinf(group.want()).any()
    assert_results(run(library, [group]), [group.want()])
    tiny = Group(a, b, np.full((m, 4), 1), np.full((n, 4), 1))  # multiples of 2^-20, subnormal in fp16
    assert 0 < np.abs(tiny.want()[tiny.want() != 0]).min() < 2**-14
    assert_results(run(library, [tiny]), [tiny.want()])


def test_instruction_sets_layouts_and_threads_agree_bit_for_bit(library_path, monkeypatch):
    sizes = [(70, 100, 1088), (9, 1030, 64), (200, 65, 448), (515, 40, 128)]
    groups = random_groups(sizes, seed=11, scale_bytes=np.arange(0x00, 0x48))
    library, results = load(library_path), {}
    for isa, threads in [(isa, "1") for isa in INTEGER_ISAS] + [(INTEGER_ISAS[0], "2"), (INTEGER_ISAS[0], "5")]:
        if not runs_here(library_path, isa):
            monkeypatch.setenv("NVFP4_CPU_ISA", isa)
            monkeypatch.setenv("OMP_NUM_THREADS", threads)
            for layout in (BLOCKED, ROWS):
                results[isa, threads, layout] = run(library, groups, layout)
    first = results.popitem()[1]
    assert np.allclose(first[0], groups[0].want(), rtol=1e-3, atol=1e-3)
    for which, got in results.items():
        assert all((x.view(np.uint16) == y.view(np.uint16)).all() for x, y in zip(got, first, strict=True)), which


def test_as_many_groups_as_there_may_be_run_in_one_call(library_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    groups = random_groups([(1 + i % 5, 1 + i % 37, 64 * (1 + i % 3)) for i in range(256)], seed=13)
    assert_results(run(load(library_path), groups, ROWS), [group.want() for group in groups])


def test_inputs_of_several_groups_may_be_the_same_memory(library_path):
    groups = random_groups([(6, 40, 128)] * 2, seed=17, scale_bytes=POWERS[:2])
    call = Call(load(library_path), groups)
    for name in ("b", "sfb"):
        setattr(call.group[1], name, getattr(call.group[0], name))
    groups[1].codes[1], groups[1].scales[1] = groups[0].codes[1], groups[0].scales[1]
    assert call()[0] == 0
    assert_results([x.view(np.float16) for x in call.outputs], [group.want() for group in groups])
