"""Reductions into global and remote shared memory, of every operation and type."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.isa.values import float_oracle as ieee
from simulator.tests.isa.values.float_oracle import BF16, F16, F32, F64
from simulator.tests.isa.values.test_memory_values import INTEGER
from simulator.tests.isa.values.value_table import edges, every_pair, signed
from simulator.tests.sim_kit import MODES, Sim, body

# CUtensorMapDataType of the types that a tensor may be reduced in
MAP_TYPE = {"u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
FORMS = {
    "u32": ("add", "min", "max", "inc", "dec", "and", "or", "xor"),
    "s32": ("add", "min", "max"),
    "u64": ("add", "min", "max"),
    "s64": ("min", "max"),
    "b32": ("and", "or", "xor"),
    "b64": ("and", "or", "xor"),
    "f16": ("add.noftz", "min", "max"),
    "bf16": ("add.noftz", "min", "max"),
    "f32": ("add",),
    "f64": ("add",),
}
FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


def size_of(kind: str) -> int:
    return int("".join(c for c in kind if c.isdigit()))


def operands(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of edges, in multiples of 16 bytes."""
    bits = size_of(kind)
    if kind in FLOATS:
        values = [
            v for v in ieee.edges(FLOATS[kind]) if v != 1 << (bits - 1)
        ]  # PTX does not say which zero min and max return
        values = [v for v in values if kind[0] != "f" or bits == 16 or ieee.flushed(FLOATS[kind], v) == v]
    else:
        values = edges(bits)
    a, b = every_pair(values[::3], bits)
    keep = len(a) // (128 // bits) * (128 // bits)
    return a[:keep].copy(), b[:keep].copy()


def wanted(op: str, kind: str, x: int, y: int) -> int:
    bits = size_of(kind)
    if kind in FLOATS:
        form = FLOATS[kind]
        return ieee.add(form, x, y) if op.startswith("add") else ieee.extreme(form, x, y, op == "max")
    read = (lambda v: signed(v, bits)) if kind[0] == "s" else int
    return INTEGER[op](read(x), read(y)) & ((1 << bits) - 1)


def check(got: np.ndarray, op: str, kind: str, a: np.ndarray, b: np.ndarray) -> None:
    for x, y, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        want = wanted(op, kind, x, y)
        nan = kind in FLOATS and ieee.is_nan(FLOATS[kind], want)
        assert result == want or (nan and ieee.is_nan(FLOATS[kind], result)), (
            op,
            kind,
            hex(x),
            hex(y),
            hex(result),
            hex(want),
        )


def text_of(copy: str, size: int, extra: str = "") -> str:
    return body(
        "ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; mov.u32 %r2, tile; mov.u32 %r3, 0;" + extra,
        "L: cvt.u64.u32 %rd3, %r3; add.u64 %rd3, %rd3, %rd2; ld.global.u32 %r4, [%rd3]; add.u32 %r5, %r2, %r3;",
        f"st.shared.u32 [%r5], %r4; add.u32 %r3, %r3, 4; setp.lt.u32 %p1, %r3, {size}; @%p1 bra L; fence.proxy.async;",
        copy,
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        params=".param .u64 out, .param .u64 in, .param .align 64 .b8 map[128]",
        registers=f".shared .align 128 .b8 tile[{size}];",
    )


@pytest.mark.parametrize("kind", FORMS)
def test_bulk_reductions_into_global_memory(kind):
    a, b = operands(kind)
    for op in FORMS[kind]:
        copy = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind} [%rd1], [%r2], {a.nbytes};"
        sim = Sim(text_of(copy, a.nbytes), "late")
        out = sim.buffer(a)
        assert sim.launch("k", out, sim.buffer(b), bytes(128), block=1) == 0, sim.findings
        assert sim.verdict == "clean", sim.findings
        check(out, op, kind, a, b)


@pytest.mark.parametrize("kind", MAP_TYPE)
def test_reductions_into_a_tensor_take_its_type(kind):
    a, b = operands(kind)
    rows = 128 // size_of(kind) * 2
    count = len(a) // rows * rows
    count = min(count, rows * 16)
    a, b = a[:count].reshape(-1, rows).copy(), b[:count].reshape(-1, rows).copy()
    for op in {"add", "min", "max"} if kind not in ("f32", "f64") else {"add"}:
        copy = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile.bulk_group [%rd4, {{%r6, %r6}}], [%r2];"
        sim = Sim(text_of(copy, a.nbytes, "mov.b64 %rd4, map; cvta.param.u64 %rd4, %rd4; mov.u32 %r6, 0;"), "late")
        out = sim.buffer(a)
        encoded = sim.tensor_map(out, MAP_TYPE[kind], (rows, len(a)))
        assert sim.launch("k", out, sim.buffer(b), encoded, block=1) == 0, sim.findings
        assert sim.verdict == "clean", sim.findings
        check(out.ravel(), op, kind, a.ravel(), b.ravel())


def test_a_reduction_into_bytes_is_an_error():
    copy = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd4, {%r6, %r6}], [%r2];"
    sim = Sim(text_of(copy, 128, "mov.b64 %rd4, map; cvta.param.u64 %rd4, %rd4; mov.u32 %r6, 0;"))
    out = sim.buffer(np.zeros((2, 64), np.uint8))
    sim.launch("k", out, sim.buffer(np.zeros(128, np.uint8)), sim.tensor_map(out, 0, (64, 2)), block=1)
    assert sim.kinds == {"tensor-map"}, sim.findings


REMOTE = {"u32": ("inc", "dec", "min", "max", "add", "and", "or", "xor"), "s32": ("min", "max", "add"), "u64": ("add",)}


@pytest.mark.parametrize("kind", [*REMOTE, "store"])
@pytest.mark.parametrize("mode", MODES)
def test_st_async_and_red_async_write_another_cta(kind, mode):
    """st.async and red.async from rank 0 to rank 1, one lane per pair; bytes complete on rank 1's barrier."""
    bits = 32 if kind == "store" else size_of(kind)
    a, b = (v[:32].copy() for v in every_pair(edges(bits)[::2], bits))
    name = "%r" if bits == 32 else "%rd"
    for op in REMOTE.get(kind, ("",)):
        form = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}.{kind}"
        form = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32" if kind == "store" else form
        text = body(
            "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; mov.u32 %r3, bar; ld.param.u64 %rd1, [out];"
            " ld.param.u64 %rd2, [in];",
            f"mul.wide.u32 %rd3, %r1, {bits // 8}; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;",
            f"ld.global.b{bits} {name}20, [%rd1]; ld.global.b{bits} {name}21, [%rd2];"
            f" mad.lo.u32 %r4, %r1, {bits // 8}, %r2;",
            f"st.shared.b{bits} [%r4], {name}20; mov.u32 %r5, %cluster_ctarank;"
            f" setp.eq.u32 %p1, %r5, 1; setp.eq.u32 %p2, %r1, 0;",
            f"@%p2 mbarrier.init.shared.b64 [%r3], 1; @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {4 * bits};",
            "fence.mbarrier_init.release.cluster; fence.proxy.async; barrier.cluster.arrive.aligned;"
            " barrier.cluster.wait.aligned;",
            "@%p1 bra WAIT; mapa.shared::cluster.u32 %r6, %r4, 1; mapa.shared::cluster.u32 %r7, %r3, 1;",
            f"{form} [%r6], {name}21, [%r7]; bra END;",
            f"WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra WAIT;"
            f" ld.shared.b{bits} {name}22, [%r4];",
            f"st.global.b{bits} [%rd1], {name}22; END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
            params=".param .u64 out, .param .u64 in",
            registers=".shared .align 16 .b8 cell[256]; .shared .align 8 .b8 bar[8];",
        )
        # Rank 0's barrier expects bytes that never come: only rank 1 arms its own.
        text = text.replace("@%p2 mbarrier.arrive", "and.pred %p4, %p1, %p2; @%p4 mbarrier.arrive")
        sim = Sim(text, mode)
        out = sim.buffer(a)
        assert sim.launch("k", out, sim.buffer(b), grid=2, cluster=2) == 0, sim.findings
        assert sim.verdict == "clean", (op, sim.findings)
        for x, y, result in zip(a.tolist(), b.tolist(), out.tolist(), strict=True):
            assert result == (y if kind == "store" else wanted(op, kind, x, y)), (op, hex(x), hex(y), hex(result))
