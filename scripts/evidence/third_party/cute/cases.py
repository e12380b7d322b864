"""Data, launch and expected values of CuTe DSL's examples, and their run on the simulator."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from scripts.common.ptxsim import VERDICTS, PtxError, Sim
from scripts.evidence.third_party.outcome import Case, compare, in_a_child, told, values
from scripts.evidence.third_party.sources import WHEELS, Sources, Unavailable

HERE = Path(__file__).resolve().parent
REPOSITORY, WHEEL = "NVIDIA/cutlass", "nvidia-cutlass-dsl"
M, N, K = 256, 128, 256
SHARED_BYTES = 232448
LOG2_E = 1.4426950408889634  # its host code turns exponentials into powers of two
FP16_MAP, SWIZZLE_64, SWIZZLE_128 = 6, 2, 3  # CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_SWIZZLE_*
# A TiledMma's value: whether to accumulate and to negate, and the lanes without output: all zero at the start.
TILED_MMA = b""


@dataclass(frozen=True)
class Example:
    """One kernel: its launch, which tensors go as maps of which boxes, and what it computes."""

    name: str
    arch: str
    shows: str
    data: Callable[[], tuple[list[np.ndarray], np.ndarray, np.ndarray | float]]
    grid: tuple[int, int, int]
    block: int
    size: str
    boxes: tuple[tuple[int, int], ...] = ()
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
    """Column-major fp32: arrays here are turned round."""
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
        ((64, 128), (64, 128), (32, 64)), after=(b"",),
    ),
    Example(
        "blackwell_dense_gemm", "100a", "TMA, tcgen05, TMA store", GEMM, (2, 1, 1), 128, GEMM_SIZE,
        ((64, 128), (64, 128), (32, 128)), before=(TILED_MMA,),
    ),
    Example(
        "blackwell_dense_gemm_pair", "100a", "the same, cta_group::2", GEMM, (2, 1, 1), 128, GEMM_SIZE,
        ((64, 128), (64, 64), (32, 128)), 2, (TILED_MMA,),
    ),
)  # fmt: skip


def compiled(sources: Sources) -> Path:
    """The folder of NAME.ptx, made once for the text, the examples and the version at hand."""
    examples = sources.checkout(REPOSITORY) / "examples/python/CuTeDSL/cute"
    text = "\0".join([WHEELS[WHEEL], sources.commit(REPOSITORY), (HERE / "translate.py").read_text()])
    folder = sources.cache / f"cute-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for chip in ("sm_90a", "sm_100a"):
            keep = {"KEEP_PTX": "1", "LINEINFO": "1", "DUMP_DIR": str(folder), "ARCH": chip}
            environment = dict(os.environ, **{f"CUTE_DSL_{name}": value for name, value in keep.items()})
            command = [str(sources.python()), str(HERE / "translate.py"), examples, folder, chip]
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
    for i, box in enumerate(example.boxes):
        tensors[i] = sim.tensor_map(buffers[i], FP16_MAP, box, SWIZZLE_128 if box[0] == 64 else SWIZZLE_64)
    entry = re.search(r"\.entry\s+(\w+)", text)[1]
    # Static shared memory is a part of what a CTA has; without any, a kernel takes what its largest tile needs.
    launch = {"grid": example.grid, "block": example.block, "cluster": example.cluster, "shared": SHARED_BYTES}
    status = sim.launch(entry, *example.before, *tensors, *example.after, **launch)
    got = values(buffers[-1].reshape(-1), str(buffers[-1].dtype)).reshape(want.shape)
    row = {"status": status, **compare(got, want, bound), "verdict": sim.verdict}
    return row | {"findings": told([each | {"verdict": VERDICTS[each["verdict"]]} for each in sim.findings])}


def cases() -> Iterator[Case]:
    """All of them, in the table's order."""

    def prepare(example: Example, sources: Sources) -> Callable[[str], dict]:
        folder, data = compiled(sources), example.data()
        return lambda mode: in_a_child(partial(run, folder, example, data, mode))

    for example in EXAMPLES:
        yield Case(WHEEL, example.name, example.shows, example.size, example.arch, partial(prepare, example))
