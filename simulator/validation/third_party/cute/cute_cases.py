"""Data, launch and expected values of CuTe DSL's examples, and their run on the simulator."""

from __future__ import annotations

import hashlib
import os
import re
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from simulator.python.frame import VERDICTS, PtxError, Sim
from simulator.validation.third_party.narrow_operands import e2m1, tiled, ue4m3
from simulator.validation.third_party.outcome import Case, compare, in_a_child, merged, values
from simulator.validation.third_party.third_party_sources import WHEELS, Sources, Unavailable

HERE = Path(__file__).resolve().parent
REPOSITORY, WHEEL = "NVIDIA/cutlass", "nvidia-cutlass-dsl"
M, N, K = 256, 128, 256
SHARED_BYTES = 232448
LOG2_E = 1.4426950408889634  # its host code turns exponentials into powers of two
# Values of CU_TENSOR_MAP_DATA_TYPE_* and CU_TENSOR_MAP_SWIZZLE_*
UINT16_MAP, FP16_MAP, FP4_MAP, NO_SWIZZLE, SWIZZLE_64, SWIZZLE_128 = 1, 6, 13, 0, 2, 3
# A TiledMma as an argument (accumulate, negate, lanes without output): all zero at the start.
TILED_MMA = b""


@dataclass(frozen=True)
class Map:
    """The tensor map of a tensor: with the array's sizes or with its own; innermost dimension first."""

    box: tuple[int, ...]
    kind: int = FP16_MAP
    swizzle: int = SWIZZLE_128
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Example:
    """One kernel: its launch, the tensors that it takes as maps, and what it computes."""

    name: str
    arch: str
    shows: str
    data: Callable[[], tuple[list[np.ndarray], np.ndarray, np.ndarray | float]]
    grid: tuple[int, int, int]
    block: int
    size: str
    maps: tuple[Map, ...] = ()
    cluster: int = 0
    before: tuple = ()  # arguments before the tensors, and after them
    after: tuple = ()


def _half(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).half()


def _product(k: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """fp16 a (M, k), b (N, k) and c (M, N)."""
    a, b = _half(1, M, k), _half(2, N, k)
    want = (a.double() @ b.double().T).numpy()
    return [a.numpy(), b.numpy(), np.zeros((M, N), np.float16)], want, np.abs(want) * 2.0**-11 + 1e-4 * k**0.5


def _sgemm() -> tuple[list[np.ndarray], np.ndarray, float]:
    """Column-major fp32: the arrays are transposed."""
    a, b = (torch.randn(64, n, generator=torch.Generator().manual_seed(n)).float() for n in (M, N))
    want = (b.double().T @ a.double()).numpy()
    return [a.numpy(), b.numpy(), np.zeros((N, M), np.float32)], want, 1e-4


def _add() -> tuple[list[np.ndarray], np.ndarray, float]:
    a, b = (torch.randn(128, 256, generator=torch.Generator().manual_seed(n)).float() for n in (1, 2))
    return [a.numpy(), b.numpy(), np.zeros((128, 256), np.float32)], (a + b).double().numpy(), 0.0


def _attention() -> tuple[list[np.ndarray], np.ndarray, float]:
    q, k, v = (_half(i, 128, 64) for i in range(3))
    want = ((q.double() @ k.double().T * 0.125).softmax(1) @ v.double()).numpy()
    return [*(x.numpy() for x in (q, k, v)), np.zeros((128, 64), np.float16)], want, 2e-3


def _nvfp4() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """NVFP4 a and b, scale factors of each in blocks of 128 rows and four factors, fp16 c."""
    size, k, group = *NVFP4, 16
    (a, x), (b, y) = (e2m1(size, k, seed) for seed in (1, 2))
    (sa, fa), (sb, fb) = (ue4m3(size, k // group, seed) for seed in (3, 4))
    want = (x * fa.repeat(group, 1)) @ (y * fb.repeat(group, 1)).T
    scales = (tiled(each).reshape(size // 128, k // (4 * group), SCALE_BLOCK) for each in (sa, sb))
    return [a, b, *scales, np.zeros((size, size), np.float16)], want, np.abs(want) * 2.0**-11 + 1e-4 * k**0.5


def scaled_maps(b_rows: int = 128, b_blocks: int = 4) -> tuple[Map, ...]:
    """Boxes of 256 elements in k: a of 128 rows, b of `b_rows`; four blocks of scale factors in k as uint16, of b's
    `b_blocks`, the other CTA of a pair bringing the others to both.
    """
    size, k = NVFP4
    sizes = (SCALE_BLOCK // 2, k // 64, size // 128)
    scales = (Map((SCALE_BLOCK // 2, blocks, 1), UINT16_MAP, NO_SWIZZLE, sizes) for blocks in (4, b_blocks))
    a, b = (Map((256, rows), FP4_MAP, SWIZZLE_128, (k, size)) for rows in (128, b_rows))
    return a, b, *scales, Map((32, 128), swizzle=SWIZZLE_64)


def divisor(by: int) -> bytes:
    """How the DSL passes a divisor: itself, a multiplier and two shifts (Granlund and Montgomery 1994)."""
    bits = (by - 1).bit_length()
    multiplier = (((1 << bits) - by) << 32) // by + 1
    return struct.pack("<IIBB", by, multiplier, min(bits, 1), max(bits - 1, 0))


NVFP4, SCALE_BLOCK = (256, 512), 512  # rows of a and of b, and k; cute_translate.py has the same; bytes
NVFP4_SIZE = " x ".join(map(str, (NVFP4[0], *NVFP4)))
GEMM = partial(_product, K)
GEMM_SIZE = f"{M} x {N} x {K}"
EXAMPLES = (
    Example("elementwise_add", "90a", "layouts of copies", _add, (16, 1, 1), 128, "128 x 256"),
    Example("sgemm", "90a", "cp.async, fp32 sums on the cores", _sgemm, (2, 1, 1), 256, f"{M} x {N} x 64"),
    Example(
        "tensorop_gemm", "90a", "cp.async, ldmatrix, mma.sync", partial(_product, 128), (2, 1, 1), 128,
        f"{M} x {N} x 128", after=(1,),
    ),
    Example(
        "flash_attention_v2", "90a", "attention, mma.sync", _attention, (2, 1, 1), 128, "128 x 64",
        after=(0.125 * LOG2_E,),
    ),
    Example(
        "hopper_dense_gemm", "90a", "TMA, wgmma, TMA store", GEMM, (2, 1, 1), 128, GEMM_SIZE,
        (Map((64, 128)), Map((64, 128)), Map((32, 64), swizzle=SWIZZLE_64)), after=(b"",),
    ),
    Example(
        "blackwell_dense_gemm", "100a", "TMA, tcgen05, TMA store", GEMM, (2, 1, 1), 128, GEMM_SIZE,
        (Map((64, 128)), Map((64, 128)), Map((32, 128), swizzle=SWIZZLE_64)), before=(TILED_MMA,),
    ),
    Example(
        "blackwell_dense_gemm_pair", "100a", "the same, cta_group::2", GEMM, (2, 1, 1), 128, GEMM_SIZE,
        (Map((64, 128)), Map((64, 64)), Map((32, 128), swizzle=SWIZZLE_64)), 2, (TILED_MMA,),
    ),
    Example(
        "blackwell_nvfp4_persistent", "100a", "NVFP4, persistent, warp-specialised, two tiles a CTA", _nvfp4,
        (1, 1, 2), 192, NVFP4_SIZE, scaled_maps(), 0, (TILED_MMA, TILED_MMA), (divisor(2), divisor(2), b"", b""),
    ),
    Example(
        "blackwell_nvfp4_persistent_pair", "100a", "the same, cta_group::2", _nvfp4,
        (2, 1, 1), 192, NVFP4_SIZE, scaled_maps(64, 2), 2, (TILED_MMA, TILED_MMA), (divisor(1), divisor(2), b"", b""),
    ),
)  # fmt: skip


def compiled(sources: Sources) -> Path:
    """The folder of NAME.ptx files, made once for each version of the examples and the compiler."""
    examples = sources.checkout(REPOSITORY) / "examples/python/CuTeDSL/cute"
    text = "\0".join([WHEELS[WHEEL], sources.commit(REPOSITORY), (HERE / "cute_translate.py").read_text()])
    folder = sources.cache / f"cute-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for chip in ("sm_90a", "sm_100a"):
            keep = {"KEEP_PTX": "1", "LINEINFO": "1", "DUMP_DIR": str(folder), "ARCH": chip}
            environment = dict(os.environ, **{f"CUTE_DSL_{name}": value for name, value in keep.items()})
            command = [str(sources.python()), str(HERE / "cute_translate.py"), examples, folder, chip]
            done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
            if done.returncode != 0:
                raise Unavailable(f"the DSL does not start: {(done.stderr.strip() or 'no word').splitlines()[-1]}")
        (folder / "complete").touch()
    return folder


def run(folder: Path, example: Example, data: tuple, mode: str) -> dict:
    """One launch in one mode."""
    path = folder / f"{example.name}.ptx"
    if not path.exists():
        return {"failed": f"CuTe DSL refuses it: {path.with_suffix('.txt').read_text()}"}
    text = path.read_text()
    kind, _, seed = mode.partition(":")
    try:
        sim = Sim(text, mode=kind, seed=int(seed or 1))
    except PtxError as error:
        return {"failed": f"cannot be read: {error}"}
    arrays, want, bound = data
    buffers = [sim.buffer(array) for array in arrays]
    tensors: list = list(buffers)
    for i, each in enumerate(example.maps):
        tensors[i] = sim.tensor_map(buffers[i], each.kind, each.box, each.swizzle, each.sizes)
    entry = re.search(r"\.entry\s+(\w+)", text)[1]
    # Static shared memory is a part of what a CTA has; without any, a kernel takes what its largest tile needs.
    launch = {"grid": example.grid, "block": example.block, "cluster": example.cluster, "shared": SHARED_BYTES}
    status = sim.launch(entry, *example.before, *tensors, *example.after, **launch)
    got = values(buffers[-1].reshape(-1), str(buffers[-1].dtype)).reshape(want.shape)
    row = {"status": status, **compare(got, want, bound), "verdict": sim.verdict}
    return row | {"findings": merged([each | {"verdict": VERDICTS[each["verdict"]]} for each in sim.findings])}


def cases() -> Iterator[Case]:
    """Every example, in the table's order."""

    def prepare(example: Example, sources: Sources) -> Callable[[str], dict]:
        folder, data = compiled(sources), example.data()
        return lambda mode: in_a_child(partial(run, folder, example, data, mode))

    for example in EXAMPLES:
        yield Case(WHEEL, example.name, example.shows, example.size, example.arch, partial(prepare, example))
