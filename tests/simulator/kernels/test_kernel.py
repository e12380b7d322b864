"""A whole tcgen05 kernel in the virtual machine: right and clean in every mode, and each mutant found."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pytest

from tests.simulator.kernels.gemm_ptx import STEPS, kernel, mutate
from tests.simulator.tensorcore.fused_sum import Rule, vectors
from tests.simulator.tensorcore.tensor_kit import ptxsim

MODES = ("eager", "late", "reverse", "random:1", "random:2", "poison")
RULE = Rule("e2m1", "e2m1", bits=35, scale="ue4m3", block=16, grouped=True)
CHUNKS = 3


def operand_image(codes):
    """Chunks of K = 256: rows of 128 bytes with 128-byte swizzle."""
    chunks = []
    for at in range(0, codes.shape[1], 256):
        part = codes[:, at : at + 256]
        line = np.arange(len(part))[:, None] * 128 + np.arange(128)
        image = np.zeros(part.shape[0] * 128, np.uint8)
        image[(line ^ (line >> 7 & 7) << 4).reshape(-1)] = (part[:, 0::2] | part[:, 1::2] << 4).reshape(-1)
        chunks.append(image)
    return chunks


def scale_image(scales):
    """Chunks of K = 256: for each 128 rows, for each step, 512 bytes in the blocked layout."""
    chunks = []
    for at in range(0, scales.shape[1], 4 * STEPS):
        tiles = []
        for top in range(0, len(scales), 128):
            for step in range(STEPS):
                block = np.zeros((32, 4, 4), np.uint8)
                for r, row in enumerate(scales[top : top + 128, at + 4 * step : at + 4 * step + 4]):
                    block[r % 32, r // 32] = row
                tiles.append(block.reshape(-1))
        chunks.append(np.concatenate(tiles))
    return chunks


class Problem:
    def __init__(self, folder, n=128, pair=False):
        self.folder, self.n, self.group = folder, n, 2 if pair else 1
        rng = np.random.default_rng(n)
        m, k = 128 * self.group, 256 * CHUNKS
        a, b = rng.integers(0, 16, (m, k)), rng.integers(0, 16, (n, k))
        sfa, sfb = (rng.integers(0, 0x60, (rows, k // 16)).astype(np.uint8) for rows in (m, n))
        want = np.zeros((m, n), np.uint32)
        for i in range(k // 64):
            x, s = slice(64 * i, 64 * i + 64), slice(4 * i, 4 * i + 4)
            want = vectors(RULE, a[:, x], b[:, x], want, sfa[:, s], sfb[:, s])
        self.want = want
        half = n // self.group
        self.sizes = []
        for name, parts in (
            ("a", [operand_image(a[i * 128 : i * 128 + 128]) for i in range(self.group)]),
            ("b", [operand_image(b[i * half : i * half + half]) for i in range(self.group)]),
            ("sfa", [scale_image(sfa[i * 128 : i * 128 + 128]) for i in range(self.group)]),
            ("sfb", [scale_image(sfb)]),
        ):
            data = np.concatenate([np.concatenate(chunks) for chunks in parts]).astype(np.uint8)
            (folder / name).write_bytes(data.tobytes())
            self.sizes.append((name, data.size))

    def run(self, text, mode="eager"):
        """The verdict, the kinds of findings, and how many elements are wrong."""
        ptx, out = self.folder / "kernel.ptx", self.folder / "d"
        ptx.write_text(text)
        out.unlink(missing_ok=True)
        buffers = [f"buf:{size}={self.folder / name}" for name, size in self.sizes] + [f"buf:{self.want.size * 4}"]
        done = subprocess.run(
            [ptxsim(), ptx, "gemm", "--grid", str(self.group), "--cluster", str(self.group), "--block", "256",
             "--mode", mode, "--json", "--dump", f"4={out}", "--", *buffers],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1, 2, 3), done.stderr
        report = json.loads(done.stdout)
        self.counters = report["counters"]
        d = np.frombuffer(out.read_bytes(), np.uint32).reshape(self.want.shape) if out.exists() else ~self.want
        kinds = {(f["verdict"], f["kind"]) for f in report["findings"]}
        return report["verdict"], kinds, int((d != self.want).sum())


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
    """PTX ISA, fence.mbarrier_init; without the fence it is a race."""
    pair = Problem(tmp_path, 64, pair=True)
    relaxed = "  bar.sync 0; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"
    text = mutate(kernel(64, CHUNKS, pair=True), "first_sync", relaxed)
    assert pair.run(text, "late") == ("clean", set(), 0)
    verdict, kinds, _ = pair.run(mutate(text, "init_fence"), "late")
    assert verdict == "error" and ("error", "mbarrier-init-fence") in kinds
    assert ("review", "mbarrier-init-race") in kinds


def test_relaxed_barriers_order_tcgen05(tmp_path):
    """PTX ISA: tcgen05.fence works with execution ordering instructions, relaxed ones too."""
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
def test_what_its_mmas_cost(tmp_path, n, pair):
    """M = 128 a CTA, 64 of K: N / 2 cycles of each SM that takes part."""
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


# line left out: the verdict, and a finding that has to be there
MUTANTS = {
    "issuer_fence": ("review", "missing-tcgen05-fence"),
    "epilogue_fence": ("review", "missing-tcgen05-fence"),
    "before_end": ("review", "missing-tcgen05-fence"),
    "init_fence": ("error", "mbarrier-init-fence"),
    "wait_ld": ("error", "tensor-memory-freed"),
    "epilogue_done": ("error", "accumulator-early"),
    "issuer_full": ("error", "read-before-completion"),
    "producer_empty": (
        "error",
        {"eager": "double-write", "late": "mbarrier-arrivals", "random:3": "mbarrier-arrivals"},
    ),
    "commit_empty": ("error", "deadlock"),
    "commit_done": ("error", "deadlock"),
    "expect": ("error", "deadlock"),
    "cp_sfa": ("error", "tensor-memory-uninitialised"),
    "cp_sfb": ("error", "tensor-memory-uninitialised"),
    "mma": ("review", "tensor-memory-uninitialised"),
    "alloc": ("error", "tensor-operand"),
    "dealloc": ("error", "tensor-memory-leak"),
    "first_sync": (
        "error",
        {"eager": "read-after-write-race", "late": "read-after-write-race", "random:3": "no-mbarrier"},
    ),
    "last_sync": ("error", "tensor-memory-freed"),
}


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.parametrize("mode", ["eager", "late", "random:3"])
def test_each_mutant_is_found(problem, name, mode):
    verdict, kinds, _ = problem.run(mutate(kernel(chunks=CHUNKS), name), mode)
    want, kind = MUTANTS[name]
    assert verdict == want
    assert (want, kind[mode] if isinstance(kind, dict) else kind) in kinds, kinds


# CUTLASS's epilogues do this; the load itself still has to be known as complete before dealloc
@pytest.mark.parametrize("mode", ["late", "poison"])
def test_a_use_without_wait_gets_the_loaded_value(problem, mode):
    _, kinds, wrong = problem.run(mutate(kernel(chunks=CHUNKS), "wait_ld"), mode)
    assert wrong == 0
    assert kinds == {("review", "tcgen05-register"), ("error", "tensor-memory-freed")}


# of the pair
PAIR_MUTANTS = {
    "peer_completed": ("error", "read-before-completion"),
    "arrive_leader": ("error", "deadlock"),
    "first_sync": ("error", "read-after-write-race"),
    "last_sync": ("error", "tensor-operand"),
    "before_end": ("review", "missing-tcgen05-fence"),
    "commit_empty": ("error", "deadlock"),
}


@pytest.mark.parametrize("name", PAIR_MUTANTS)
@pytest.mark.parametrize("mode", ["eager", "late"])
def test_each_mutant_of_the_pair_is_found(tmp_path, name, mode):
    pair = Problem(tmp_path, 64, pair=True)
    verdict, kinds, _ = pair.run(mutate(kernel(64, CHUNKS, pair=True), name), mode)
    want, kind = PAIR_MUTANTS[name]
    assert verdict == want
    assert (want, kind) in kinds, kinds


# what stands for a line: the finding that has to be there
ALTERED = [
    (
        "issuer_full",
        "  mbarrier.try_wait.parity.shared::cta.b64 %pw, [%fb], 0;\n  @!%pw bra issuer_full_W;",
        "missed-phase",
    ),
    ("dealloc", "  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 32;", "tensor-memory"),
    ("alloc", "  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 96;", "tensor-memory"),
    ("alloc", "  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;", "tensor-operand"),
    ("dealloc", "  tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tm, 256;", "cta-group"),
    ("ld", "  xor.b32 %r5, %r5, 2097152;\n  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%r5];", "tensor-memory"),
]


@pytest.mark.parametrize("case", ALTERED, ids=lambda case: f"{case[0]} {case[2]}")
def test_altered_lines_are_found(problem, case):
    name, replacement, kind = case
    verdict, kinds, _ = problem.run(mutate(kernel(chunks=CHUNKS), name, replacement), "late")
    assert verdict == "error"
    assert ("error", kind) in kinds, kinds


# PTX gives a warp its own quarter of the lanes; a B200 gave right results to a kernel whose warps all named lane 0
@pytest.mark.parametrize("mode", ["eager", "late"])
def test_lane_0_named_by_every_warp_is_taken_as_its_own_for_review(problem, mode):
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
