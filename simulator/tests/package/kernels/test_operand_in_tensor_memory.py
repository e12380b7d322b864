"""A kernel with A in tensor memory: st, disabled lanes, scale-input-d and every shape of ld."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest

from simulator.python.tensorcore import matrix_descriptor, unscaled
from simulator.python.toolchain import built
from simulator.tests.tensorcore.test_tmem import COLUMNS, REGISTERS, fragment
from simulator.validation.fused_sum import Rule, vectors
from simulator.validation.mutants.gemm_ptx import mutate

N, A_COLUMN, D_SCALE = 16, 64, 3


def kernel(shape: str, scale: bool, disabled: bool) -> str:
    """Each thread puts a row of A and of C into tensor memory and a part of B into shared memory; thread 0 multiplies;
    warps load D in `shape` and write register r of thread t to out[warp][half][r][t]."""
    num = N // COLUMNS[shape]
    count = REGISTERS[shape] * num
    halves = 1 if shape == "32x32b" else 2
    desc = matrix_descriptor(0, 128, 256) & ~0x3FFF
    lists = ", ".join(f"%v{i}" for i in range(count))
    split = f", {N // 2}" if shape == "16x32bx2" else ""
    if shape == "16x32bx2":
        num = count = N // 2
        lists = ", ".join(f"%v{i}" for i in range(count))
    reads = "\n".join(
        f"""
  add.u32 %t1, %t0, {half * 16 << 16};
  tcgen05.ld.sync.aligned.{shape}.x{num}.b32 {{{lists}}}, [%t1]{split};
  tcgen05.wait::ld.sync.aligned;  //@wait_ld
"""
        + "\n".join(f"  st.global.b32 [%out+{(half * count + r) * 128}], %v{r};" for r in range(count))
        for half in range(halves)
    )
    masks = "{%m0, %m1, %m2, %m3}, " if disabled else ""
    return f""".version 8.8
.target sm_100a
.address_size 64
.shared .align 1024 .b8 tile[512];
.shared .align 8 .b64 done;
.shared .align 4 .b32 slot;
.visible .entry ts(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pmask, .param .u64 pout)
.reqntid 128
{{
  .reg .pred %p0, %pw, %acc;
  .reg .b32 %tx, %lane, %warp, %tm, %t0, %t1, %r<8>, %v<32>, %m<4>;
  .reg .b64 %a, %b, %c, %out, %q, %d;
  mov.u32 %tx, %tid.x;
  shr.u32 %warp, %tx, 5;
  and.b32 %lane, %tx, 31;
  ld.param.u64 %a, [pa];
  ld.param.u64 %b, [pb];
  ld.param.u64 %c, [pc];
  ld.param.u64 %q, [pmask];
  ld.global.v4.b32 {{%m0, %m1, %m2, %m3}}, [%q];
  ld.param.u64 %out, [pout];
  setp.ne.u32 %p0, %warp, 0;
  @%p0 bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;
ALLOCATED:
  setp.ne.u32 %p0, %tx, 0;
  @%p0 bra INITED;
  mbarrier.init.shared::cta.b64 [done], 1;
  fence.mbarrier_init.release.cluster;
INITED:
  // B: the 512 bytes of its core matrices.
  mul.wide.u32 %q, %tx, 4;
  add.u64 %b, %b, %q;
  ld.global.b32 %r0, [%b];
  mov.u32 %r1, tile;
  mad.lo.u32 %r1, %tx, 4, %r1;
  st.shared.b32 [%r1], %r0;
  fence.proxy.async.shared::cta;  //@proxy_fence
  bar.sync 0;
  ld.shared.u32 %tm, [slot];
  shl.b32 %t0, %warp, 21;
  add.u32 %t0, %t0, %tm;
  mul.wide.u32 %q, %tx, 32;
  add.u64 %a, %a, %q;
  ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%a];
  ld.global.v4.b32 {{%v4, %v5, %v6, %v7}}, [%a+16];
  add.u32 %t1, %t0, {A_COLUMN};
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%t1], {{%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7}};  //@store_a
  mul.wide.u32 %q, %tx, {N * 4};
  add.u64 %c, %c, %q;
{chr(10).join(f"  ld.global.b32 %v{i}, [%c+{4 * i}];" for i in range(N))}
  tcgen05.st.sync.aligned.32x32b.x{N}.b32 [%t0], {{{", ".join(f"%v{i}" for i in range(N))}}};  //@store_c
  tcgen05.wait::st.sync.aligned;  //@wait_st
  tcgen05.fence::before_thread_sync;  //@before
  bar.sync 0;  //@sync
  tcgen05.fence::after_thread_sync;  //@after
  setp.ne.u32 %p0, %tx, 0;
  @%p0 bra ISSUED;
  mov.u32 %r1, tile;
  shr.u32 %r1, %r1, 4;
  cvt.u64.u32 %q, %r1;
  or.b64 %d, %q, {desc};
  setp.eq.u32 %acc, 0, 0;
  add.u32 %t1, %tm, {A_COLUMN};
  tcgen05.mma.cta_group::1.kind::f16 [%tm], [%t1], %d, {unscaled(128, N)}, {masks}%acc{f", {D_SCALE}" if scale else ""};
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
ISSUED:
  bar.warp.sync 0xffffffff;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %pw, [done], 0;
  @!%pw bra WAIT;
  tcgen05.fence::after_thread_sync;
  mul.wide.u32 %q, %warp, {halves * count * 128};
  add.u64 %out, %out, %q;
  mul.wide.u32 %q, %lane, 4;
  add.u64 %out, %out, %q;
{reads}
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  setp.ne.u32 %p0, %warp, 0;
  @%p0 bra OUT;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 128;
OUT:
  ret;
}}
"""


def run(folder, text, data, size, mode):
    (folder / "k.ptx").write_text(text)
    for name, array in data.items():
        (folder / name).write_bytes(array.tobytes())
    buffers = [f"buf:{array.nbytes}={folder / name}" for name, array in data.items()] + [f"buf:{size}"]
    done = subprocess.run(
        [built("ptxsim"), folder / "k.ptx", "ts", "--grid", "1", "--block", "128", "--mode", mode, "--json",
         "--dump", f"4={folder / 'out'}", "--", *buffers],
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1, 2, 3), done.stderr
    report = json.loads(done.stdout)
    kinds = {(f["verdict"], f["kind"]) for f in report["findings"]}
    return report["verdict"], kinds, np.fromfile(folder / "out", np.uint32)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(11)
    a, b = (rng.integers(0, 1 << 16, (rows, 16)).astype(np.uint16) & 0x83FF | 0x3800 for rows in (128, N))
    image = np.zeros(512, np.uint8)
    for row in range(N):
        for half in range(2):
            at = row // 8 * 256 + half * 128 + row % 8 * 16
            image[at : at + 16] = b[row, 8 * half : 8 * half + 8].view(np.uint8)
    c = rng.integers(0, 1 << 32, (128, N), dtype=np.uint32) & np.uint32(0x807FFFFF) | np.uint32(125 << 23)
    masks = rng.integers(0, 1 << 32, 4, dtype=np.uint32)
    return a, b, c, {"a": a, "b": image, "c": c, "mask": masks}


def expected(data, scale, disabled):
    a, b, c, buffers = data
    scaled_c = c - np.uint32(D_SCALE << 23) if scale else c
    want = vectors(Rule("f16", "f16"), a.astype(np.int64), b.astype(np.int64), scaled_c)
    off = np.array([buffers["mask"][row // 32] >> np.uint32(row % 32) & 1 for row in range(128)], bool)
    if disabled:
        want[off] = c[off]
    return want


@pytest.mark.parametrize("shape", COLUMNS)
@pytest.mark.parametrize("mode", ["eager", "late", "poison"])
def test_shapes_of_ld(tmp_path, data, shape, mode):
    want = expected(data, True, True)
    halves = 1 if shape == "32x32b" else 2
    count = N // 2 if shape == "16x32bx2" else REGISTERS[shape] * (N // COLUMNS[shape])
    text = kernel(shape, True, True)
    verdict, kinds, out = run(tmp_path, text, data[3], 4 * halves * count * 128, mode)
    assert (verdict, kinds) == ("clean", set())
    out = out.reshape(4, halves, count, 32)
    num = N // 2 if shape == "16x32bx2" else N // COLUMNS[shape]
    for warp in range(4):
        for half in range(halves):
            for thread in range(32):
                for r in range(count):
                    lane, column = fragment(shape, num, thread, r, N // 2)
                    assert out[warp, half, r, thread] == want[32 * warp + 16 * half + lane, column]


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("disabled", [False, True])
def test_forms_of_mma(tmp_path, data, scale, disabled):
    verdict, kinds, out = run(tmp_path, kernel("32x32b", scale, disabled), data[3], 4 * N * 128, "random:5")
    assert (verdict, kinds) == ("clean", set())
    got = out.reshape(4, N, 32).transpose(0, 2, 1).reshape(128, N)
    assert (got == expected(data, scale, disabled)).all()


MUTANTS = {
    "proxy_fence": ("error", "missing-proxy-fence"),
    "store_a": ("error", "tensor-memory-uninitialised"),
    "store_c": ("error", "tensor-memory-uninitialised"),
    "wait_st": ("error", "tensor-memory-race"),
    "before": ("review", "missing-tcgen05-fence"),
    "after": ("review", "missing-tcgen05-fence"),
    "sync": ("error", "tensor-memory-race"),
    "wait_ld": ("error", "tensor-memory-freed"),
}


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.parametrize("mode", ["eager", "late"])
def test_each_mutant_is_found(tmp_path, data, name, mode):
    verdict, kinds, _ = run(tmp_path, mutate(kernel("32x32b", False, False), name), data[3], 4 * N * 128, mode)
    want, kind = MUTANTS[name]
    assert verdict == want and (want, kind) in kinds, kinds
