"""A whole tcgen05 kernel in the virtual machine: right and clean in every mode, and each mutant found."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from simulator.validation.mutants.gemm_problem import ALTERED, CHUNKS, MUTANTS, PAIR_MUTANTS, Problem
from simulator.validation.mutants.gemm_ptx import STEPS, kernel, mutate

MODES = ("eager", "late", "reverse", "random:1", "random:2", "poison")


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    return Problem(tmp_path_factory.mktemp("gemm"))


@pytest.mark.parametrize("mode", MODES)
def test_a_correct_kernel_is_right_and_clean(problem, mode):
    assert problem.run(kernel(chunks=CHUNKS), mode) == ("clean", set(), 0)


@pytest.mark.parametrize("mode", MODES)
def test_a_pair_of_ctas(tmp_path, mode):
    pair = Problem(tmp_path, 64, pair=True)
    assert pair.run(kernel(64, CHUNKS, pair=True), mode) == ("clean", set(), 0)


def test_a_relaxed_cluster_barrier_is_enough_for_fenced_mbarriers(tmp_path):
    """PTX ISA, fence.mbarrier_init; without the fence it is a race that chips forgive."""
    pair = Problem(tmp_path, 64, pair=True)
    relaxed = "  bar.sync 0; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"
    text = mutate(kernel(64, CHUNKS, pair=True), "first_sync", relaxed)
    assert pair.run(text, "late") == ("clean", set(), 0)
    verdict, kinds, _ = pair.run(mutate(text, "init_fence"), "late")
    assert verdict == "review" and ("review", "mbarrier-init-fence") in kinds
    assert ("review", "mbarrier-init-race") in kinds


def test_relaxed_barriers_order_tcgen05(tmp_path):
    """PTX ISA: tcgen05.fence works with execution ordering instructions, also with relaxed ones."""
    pair = Problem(tmp_path, 64, pair=True)
    text = kernel(64, CHUNKS, pair=True)
    relaxed = "  barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"
    assert pair.run(mutate(text, "last_sync", relaxed), "late") == ("clean", set(), 0)
    one = mutate(kernel(64, CHUNKS, pair=True), "before_end")
    verdict, kinds, _ = pair.run(mutate(one, "last_sync", relaxed), "late")
    assert (verdict, kinds) == ("review", {("review", "missing-tcgen05-fence")})
    wait = "  mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %pw, [%r0], 0;\n  @!%pw bra epilogue_done_W;"
    once = text.replace("@!%pw bra epilogue_done_W;  //@epilogue_done", "")
    assert pair.run(mutate(once, "epilogue_done", wait), "late") == ("clean", set(), 0)


@pytest.mark.parametrize(("n", "pair"), [(128, False), (192, False), (64, True)])
def test_mmas_and_copies_are_counted_with_their_costs(tmp_path, n, pair):
    """An MMA of M = 128 for each CTA and K = 64 takes N / 2 cycles of each SM that takes part."""
    problem, ctas = Problem(tmp_path, n, pair=pair), 2 if pair else 1
    assert problem.run(kernel(n, CHUNKS, pair=pair)) == ("clean", set(), 0)
    mmas = CHUNKS * STEPS
    assert problem.counters["tensor_instructions"] == mmas
    assert problem.counters["tensor_macs"] == mmas * 128 * ctas * n * 64
    assert problem.counters["tensor_cycles"] == mmas * n // 2 * ctas
    rows_of_b = n // ctas
    stage = 128 * 128 + rows_of_b * 128 + STEPS * 512 * (1 + -(-n // 128))
    assert problem.counters["tma_load_bytes"] == CHUNKS * stage * ctas


def test_n_beyond_a_tile_of_scales(tmp_path):
    wide = Problem(tmp_path, 192)
    assert wide.run(kernel(192, CHUNKS), "late") == ("clean", set(), 0)


def test_scale_columns_shared_by_the_stages_are_a_review(problem):
    for mode in ("eager", "late"):
        verdict, kinds, wrong = problem.run(kernel(chunks=CHUNKS, shared_scales=True), mode)
        assert (verdict, kinds, wrong) == ("review", {("review", "unpipelined-copy")}, 0)


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.parametrize("mode", ["eager", "late", "random:3"])
def test_each_mutant_is_found(problem, name, mode):
    verdict, kinds, _ = problem.run(mutate(kernel(chunks=CHUNKS), name), mode)
    want, kind = MUTANTS[name]
    assert verdict == want
    assert (want, kind[mode] if isinstance(kind, dict) else kind) in kinds, kinds


# CUTLASS's epilogues do this; the load must still be known as complete before dealloc.
@pytest.mark.parametrize("mode", ["late", "poison"])
def test_a_use_without_wait_gets_the_loaded_value(problem, mode):
    _, kinds, wrong = problem.run(mutate(kernel(chunks=CHUNKS), "wait_ld"), mode)
    assert wrong == 0
    assert kinds == {("review", "tcgen05-register"), ("error", "tensor-memory-freed")}


@pytest.mark.parametrize("name", PAIR_MUTANTS)
@pytest.mark.parametrize("mode", ["eager", "late"])
def test_each_mutant_of_the_pair_is_found(tmp_path, name, mode):
    pair = Problem(tmp_path, 64, pair=True)
    verdict, kinds, _ = pair.run(mutate(kernel(64, CHUNKS, pair=True), name), mode)
    want, kind = PAIR_MUTANTS[name]
    assert verdict == want
    assert (want, kind) in kinds, kinds


@pytest.mark.parametrize("case", ALTERED, ids=lambda case: f"{case[0]} {case[2]}")
def test_altered_lines_are_found(problem, case):
    name, replacement, kind = case
    verdict, kinds, _ = problem.run(mutate(kernel(chunks=CHUNKS), name, replacement), "late")
    assert verdict == "error"
    assert ("error", kind) in kinds, kinds


# PTX gives a warp its own quarter of the lanes; on a B200 a kernel whose warps all name lane 0 gave right results.
@pytest.mark.parametrize("mode", ["eager", "late"])
def test_lane_0_in_every_warps_address_is_a_review(problem, mode):
    text = kernel(chunks=CHUNKS)
    assert text.count("shl.b32 %r2, %r1, 21;") == 1
    verdict, kinds, wrong = problem.run(text.replace("shl.b32 %r2, %r1, 21;", "mov.u32 %r2, 0;"), mode)
    assert (verdict, kinds, wrong) == ("review", {("review", "tensor-memory-lane")}, 0)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas here")
@pytest.mark.parametrize("pair", [False, True])
def test_ptxas_takes_the_kernel(tmp_path, pair):
    (tmp_path / "kernel.ptx").write_text(kernel(chunks=CHUNKS, pair=pair))
    done = subprocess.run(
        ["ptxas", "-arch", "sm_100a", "-o", "/dev/null", tmp_path / "kernel.ptx"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
