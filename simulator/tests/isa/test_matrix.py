"""ldmatrix, mma.sync and wgmma in the machine: fragments and layouts, with inputs whose sums are exact."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body, compile_cuda

MMA = body(
    "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b];",
    "mul.wide.u32 %rd4, %r1, 16; add.s64 %rd2, %rd2, %rd4; ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd2];",
    "shl.b32 %r7, %r1, 4; add.u32 %r7, %r7, %r2; st.shared.v4.u32 [%r7], {%r3, %r4, %r5, %r6};",
    "setp.ge.u32 %p1, %r1, 16; @%p1 bra LOADED; add.s64 %rd3, %rd3, %rd4;",
    "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd3];",
    "st.shared.v4.u32 [%r7+512], {%r3, %r4, %r5, %r6}; LOADED: bar.warp.sync -1;",
    # A is 16 rows of 32 bytes: matrices are rows 0-7 and 8-15 of the left half, then of the right half.
    "and.b32 %r8, %r1, 15; shl.b32 %r8, %r8, 5; shr.u32 %r9, %r1, 4; shl.b32 %r9, %r9, 4; add.u32 %r8, %r8, %r9;"
    " add.u32 %r8, %r8, %r2;",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r8];",
    # B is 16 rows (k) of 16 bytes: transposed on the way.
    "and.b32 %r8, %r1, 15; shl.b32 %r8, %r8, 4; add.u32 %r8, %r8, %r2;",
    "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r14, %r15}, [%r8+512];",
    "mov.f32 %f1, 0f3F800000;",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5, %f6, %f7, %f8}, {%r10, %r11, %r12, %r13}, {%r14, %r15},"
    " {%f1, %f1, %f1, %f1};",
    "add.s64 %rd1, %rd1, %rd4; st.global.v4.f32 [%rd1], {%f5, %f6, %f7, %f8};",
    params=".param .u64 p, .param .u64 a, .param .u64 b",
    registers=".shared .align 16 .b8 tile[1024];",
)


def test_ldmatrix_and_mma():
    rng = np.random.default_rng(3)
    a, b = rng.integers(-4, 5, (16, 16)).astype(np.float16), rng.integers(-4, 5, (16, 8)).astype(np.float16)
    sim = Sim(MMA)
    out = sim.buffer(np.zeros((32, 4), np.float32))
    assert sim.launch("k", out, sim.buffer(a), sim.buffer(b)) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    got = np.zeros((16, 8), np.float32)
    for t in range(32):
        for i in range(4):
            got[t // 4 + i // 2 * 8, t % 4 * 2 + i % 2] = out[t, i]
    assert (got == a.astype(np.float32) @ b.astype(np.float32) + 1).all()


WGMMA_HELPERS = """
#include <cstdint>
__device__ uint64_t descriptor(const void *p) { // 32-byte swizzled rows, K-major: one row of an instruction's K
    uint32_t at = (uint32_t)__cvta_generic_to_shared(p);
    return (uint64_t)((at & 0x3ffff) >> 4) | 1ull << 16 | (256ull >> 4) << 32 | 3ull << 62;
}
__device__ uint32_t swizzle(uint32_t at) { return at ^ (at >> 3 & 0x10); }
"""
WGMMA = """
extern "C" __global__ void {name}(uint32_t *out, const uint4 *a, const uint4 *b) {{
    __shared__ alignas(1024) unsigned char tile[64 * 32], other[{n} * 32];
    int t = threadIdx.x;
    *(uint4 *)(tile + swizzle(t * 16)) = a[t];
    for (int i = t; i < {n} * 2; i += 128) *(uint4 *)(other + swizzle(i * 16)) = b[i];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    uint32_t d[{regs}];
    for (int i = 0; i < {regs}; i++) d[i] = 0;
    uint32_t f[4];
    const uint32_t *rows = (const uint32_t *)a;
    for (int i = 0; i < 4; i++) f[i] = rows[(t / 32 * 16 + t % 32 / 4 + i % 2 * 8) * 8 + i / 2 * 4 + t % 4];
    for (int i = 0; i < {regs}; i++) asm volatile("" : "+r"(d[i])::"memory"); // or nvcc writes them behind the fence
    for (int i = 0; i < 4; i++) asm volatile("" : "+r"(f[i])::"memory");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int step = 0; step < 2; step++)
        asm volatile("{{.reg .pred p; setp.ne.b32 p, %{scale}, 0;\\n"
                     "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {{{registers}}}, {a}, %{b_at}, p{tail};}}"
                     : {outputs} : {a_in}, "l"(descriptor(other)), "r"(step));
    asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < {regs}; i++) out[t * {regs} + i] = d[i];
}}
"""


def wgmma_name(types: str, in_registers: bool) -> str:
    return types.replace(".", "_") + ("_registers" if in_registers else "")


def wgmma_source(types: str, n: int, in_registers: bool) -> str:
    result, operand = types.split(".")[0], types.split(".")[1]
    size = 1 if operand in ("e4m3", "e5m2", "s8") else 2
    regs = n // (4 if result == "f16" else 2)
    tail = "" if result == "s32" else ", 1, 1"
    if size == 2:
        tail += ", 0" if in_registers else ", 0, 0"
    extra = 4 if in_registers else 1
    return WGMMA.format(
        name=wgmma_name(types, in_registers),
        n=n,
        k=32 // size,
        regs=regs,
        types=types,
        tail=tail,
        registers=", ".join(f"%{i}" for i in range(regs)),
        outputs=", ".join(f'"+r"(d[{i}])' for i in range(regs)),
        a="{" + ", ".join(f"%{regs + i}" for i in range(4)) + "}" if in_registers else f"%{regs}",
        a_in=", ".join(f'"r"(f[{i}])' for i in range(4)) if in_registers else '"l"(descriptor(tile))',
        b_at=regs + extra,
        scale=regs + extra + 1,
    )


CASES = [("f32.f16.f16", 16), ("f32.bf16.bf16", 24), ("f16.f16.f16", 32), ("f32.e4m3.e4m3", 8), ("s32.s8.s8", 16)]


def encode(values: np.ndarray, kind: str) -> np.ndarray:
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16)
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if kind == "s8":
        return values.astype(np.int8).view(np.uint8)
    codes = {0: 0, 1: 0x38, 2: 0x40, 3: 0x44, 4: 0x48}
    return np.vectorize(lambda v: codes[abs(int(v))] | (0x80 if v < 0 else 0))(values).astype(np.uint8)


@pytest.fixture(scope="module")
def wgmma_kernels(tmp_path_factory) -> str:
    """All of them in one compilation, most of whose time goes into reading headers."""
    kernels = [wgmma_source(*case, in_registers) for case in CASES for in_registers in (False, True)]
    return compile_cuda(WGMMA_HELPERS + "".join(kernels), tmp_path_factory.mktemp("wgmma"))


@pytest.mark.parametrize(("types", "n"), CASES)
@pytest.mark.parametrize("in_registers", [False, True])
def test_wgmma_from_shared_memory_and_registers(types, n, in_registers, wgmma_kernels):
    result, kind, _ = types.split(".")
    depth = 32 if kind in ("e4m3", "s8") else 16
    rng = np.random.default_rng(5)
    a, b = rng.integers(-4, 5, (64, depth)), rng.integers(-4, 5, (n, depth))
    want = 2 * (a @ b.T)  # the first step overwrites, the second adds the same
    for mode in MODES:
        sim = Sim(wgmma_kernels, mode)
        regs = n // (4 if result == "f16" else 2)
        out = sim.buffer(np.zeros((128, regs), np.uint32))
        operands = (sim.buffer(encode(a, kind)), sim.buffer(encode(b, kind)))
        status = sim.launch(wgmma_name(types, in_registers), out, *operands, block=128)
        assert status == 0, sim.findings
        assert sim.verdict == "clean", sim.findings
        got = np.zeros((64, n))
        for t in range(128):
            row = t // 32 * 16 + t % 32 // 4
            for i in range(regs):
                if result == "f16":
                    got[row + i % 2 * 8, i // 2 * 8 + t % 4 * 2 : i // 2 * 8 + t % 4 * 2 + 2] = out[t, i : i + 1].view(
                        np.float16
                    )
                else:
                    value = out[t, i : i + 1].view(np.int32 if result == "s32" else np.float32)[0]
                    got[row + i // 2 % 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2] = value
        np.testing.assert_array_equal(got, want, err_msg=mode)


REDUCTION = """
extern "C" __global__ void k(float *out, const float *in, int n) {
    __shared__ float partial[32];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
        for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}
"""


def test_a_compiled_reduction(tmp_path):
    text = compile_cuda(REDUCTION, tmp_path)
    sim = Sim(text, threads=2)
    values = np.random.default_rng(1).integers(0, 100, 10000).astype(np.float32)
    out = sim.buffer(np.zeros(1, np.float32))
    assert sim.launch("k", out, sim.buffer(values), 10000, grid=7, block=192) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    assert out[0] == values.sum()
    racy = text.replace("bar.sync \t0;", "").replace("barrier.sync \t0;", "")
    assert racy != text
    sim = Sim(racy)
    sim.launch("k", sim.buffer(np.zeros(1, np.float32)), sim.buffer(values), 10000, grid=7, block=192)
    assert sim.kinds & {"read-after-write-race", "write-after-read-race", "uninitialised-read"}
    assert "kernel.cu" in sim.findings[0]["source"]
