"""Data, launch and expected values of the Triton kernels, and their run on the simulator."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from simulator.python.frame import PtxError, Sim, aligned
from simulator.validation.third_party.narrow_operands import e2m1, e4m3, powers_of_two, tiled, ue4m3
from simulator.validation.third_party.outcome import Case, compare, in_a_child, merged, values
from simulator.validation.third_party.third_party_sources import WHEELS, Sources
from simulator.validation.third_party.triton.triton_variants import Variant, variants

HERE = Path(__file__).resolve().parent
VERDICTS = ("clean", "review", "error", "incomplete")
BITS = {2: np.uint16, 4: np.uint32, 1: np.uint8, 8: np.uint64}
TILE = 128
GEMM = (256, 256, 256)
SCALED_K = 256


@dataclass(frozen=True)
class Data:
    """Arguments (arrays are buffers), the grid, the index of the result, its type, expected values and bound."""

    arguments: list
    grid: int | tuple[int, int, int]
    result: int
    kind: torch.dtype
    want: np.ndarray
    bound: np.ndarray | float


def _bits(x: torch.Tensor) -> np.ndarray:
    """A tensor's memory, for types that numpy lacks."""
    flat = x.contiguous().view(torch.uint8).numpy()
    return flat.reshape(-1).view(BITS[x.element_size()])


def _normal(*shape: int, kind: torch.dtype = torch.float32, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(kind)


def _data(
    arguments: list, grid: int | tuple, want: torch.Tensor, bound: float | torch.Tensor, kind: torch.dtype
) -> Data:
    """The result is the last array among the arguments."""
    result = max(i for i, each in enumerate(arguments) if isinstance(each, np.ndarray))
    limit = bound.numpy() if isinstance(bound, torch.Tensor) else bound
    return Data(arguments, grid, result, kind, want.double().numpy(), limit)


def _empty(count: int, kind: torch.dtype) -> np.ndarray:
    return _bits(torch.zeros(count, dtype=kind))


# ---- one function a kernel ------------------------------------------------------------------------------


def _add(v: Variant) -> Data:
    x, y = _normal(1000), _normal(1000, seed=2)
    return _data([_bits(x), _bits(y), _empty(1000, x.dtype), 1000], 4, x + y, 0.0, x.dtype)


def _softmax(v: Variant) -> Data:
    x = _normal(8, 500)
    return _data([_bits(x), _empty(4000, x.dtype), 500], 8, x.double().softmax(1), 1e-6, x.dtype)


def _layernorm(v: Variant) -> Data:
    x, w, b = (_normal(*s, kind=torch.float16, seed=i) for i, s in enumerate(((8, 512), (512,), (512,))))
    want = torch.nn.functional.layer_norm(x.double(), (512,), w.double(), b.double(), 1e-5)
    return _data(
        [_bits(x), _bits(w), _bits(b), _empty(4096, x.dtype), 1e-5], 8, want, want.abs() * 2**-9 + 1e-3, x.dtype
    )


def _sort(v: Variant) -> Data:
    x = _normal(4, 256)
    return _data([_bits(x), _empty(1024, x.dtype)], 4, x.sort(1).values, 0.0, x.dtype)


def _cumsum(v: Variant) -> Data:
    x = _normal(64, 16)
    return _data([_bits(x), _empty(1024, x.dtype)], 1, x.double().cumsum(0), 1e-5, x.dtype)


def _philox(seed: int, offsets: np.ndarray) -> np.ndarray:
    """The first word of Philox 4x32-10 (Salmon et al., SC 2011), with the offset as counter and the seed as key."""
    c = [offsets.astype(np.uint64), *(np.zeros_like(offsets, dtype=np.uint64) for _ in range(3))]
    key, low = [seed & 0xFFFFFFFF, seed >> 32], np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (b >> np.uint64(32)) ^ c[1] ^ np.uint64(key[0]),
            b & low,
            (a >> np.uint64(32)) ^ c[3] ^ np.uint64(key[1]),
            a & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0].astype(np.uint32)


def _dropout(v: Variant) -> Data:
    x, p = _normal(1000), 0.25
    word = _philox(123, np.arange(1000)).view(np.int32).astype(np.int64)
    uniform = np.where(word < 0, -word - 1, word).astype(np.float32) * np.float32(4.6566127342e-10)
    want = torch.where(torch.from_numpy(uniform) > p, x.double() / (1 - p), 0.0)
    return _data([_bits(x), _empty(1000, x.dtype), 1000, p, 123], 4, want, 1e-6, x.dtype)


def _transpose(v: Variant) -> Data:
    x = _normal(64, 128, kind=torch.float16)
    return _data([_bits(x), _empty(x.numel(), x.dtype)], 1, x.T, 0.0, x.dtype)


def _histogram(v: Variant) -> Data:
    x = torch.randint(0, 64, (512,), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    return _data([_bits(x), _empty(64, x.dtype)], 1, x.bincount(minlength=64), 0.0, x.dtype)


def _gather(v: Variant) -> Data:
    x = _normal(64, 32)
    index = torch.randint(0, 64, (64, 32), generator=torch.Generator().manual_seed(1))
    return _data([_bits(x), _bits(index.int()), _empty(2048, x.dtype)], 1, x.gather(0, index), 0.0, x.dtype)


def _atomic_sum(v: Variant) -> Data:
    x = _normal(1024)
    return _data([_bits(x), _empty(16, x.dtype)], 4, x.double().reshape(-1, 16).sum(0), 1e-4, x.dtype)


def _dot(v: Variant) -> Data:
    m, n, k = v.constants["M"], v.constants["N"], v.constants["K"]
    name = v.types.split()[0][1:]
    if name == "i8":
        generator = torch.Generator().manual_seed(1)
        a, b = (torch.randint(-128, 128, s, generator=generator, dtype=torch.int8) for s in ((m, k), (k, n)))
        want = a.double() @ b.double()
        return _data([_bits(a), _bits(b), _empty(m * n, torch.int32)], 1, want, 0.0, torch.int32)
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp8e4nv": torch.float8_e4m3fn}[name]
    a, b = _normal(m, k, kind=kind), _normal(k, n, kind=kind, seed=2)
    x, y = a.double(), b.double()
    # tf32 drops 13 bits of each factor, at most 2^-10 of it; Hopper's fp8 sums keep 13 bits below the largest product.
    lost = 2**-9 if v.constants["PRECISION"] == "tf32" else 2**-11 if name == "fp8e4nv" else 2**-18
    bound = x.abs() @ y.abs() * lost + 1e-3
    return _data([_bits(a), _bits(b), _empty(m * n, torch.float32)], 1, x @ y, bound, torch.float32)


def _gemm(v: Variant) -> Data:
    m, n, k = GEMM
    a, b = _normal(m, k, kind=torch.float16), _normal(n, k, kind=torch.float16, seed=2)
    want = a.double() @ b.double().T
    arguments = [_bits(a), _bits(b), _empty(m * n, a.dtype), m, n, k]
    # A persistent kernel has fewer programs than tiles.
    grid = 3 if v.kernel == "matmul_persistent" else (m // TILE, n // TILE, 1)
    return _data(arguments, grid, want, want.abs() * 2**-11 + 1e-3 * k**0.5, a.dtype)


def _attention(v: Variant) -> Data:
    length, depth = v.constants["LENGTH"], v.constants["D"]
    q, k, values = (_normal(length, depth, kind=torch.float16, seed=i) for i in range(3))
    scale = depth**-0.5
    scores = q.double() @ k.double().T * scale
    if v.constants["CAUSAL"]:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    want = scores.softmax(1) @ values.double()
    buffers = [_bits(q), _bits(k), _bits(values), _empty(length * depth, q.dtype)]
    return _data([*buffers, scale * 1.4426950408889634], length // TILE, want, 2e-3, q.dtype)


def _operand(kind: str, rows: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return e2m1(rows, k, seed) if kind == "e2m1" else e4m3(rows, k, seed)


def _dot_scaled(v: Variant) -> Data:
    group, k = v.constants["GROUP"], SCALED_K
    (a, x), (b, y) = (_operand(v.constants[name], TILE, k, i) for i, name in enumerate(("A_TYPE", "B_TYPE")))
    (sa, fa), (sb, fb) = ((ue4m3 if group == 16 else powers_of_two)(TILE, k // group, seed) for seed in (3, 4))
    want = (x * fa.repeat(group, 1)) @ (y * fb.repeat(group, 1)).T
    order = tiled if v.kernel == "dot_scaled_tma" else np.ravel
    arguments = [a.ravel(), order(sa).copy(), b.ravel(), order(sb).copy(), _empty(TILE * TILE, torch.float32), k]
    bound = np.abs(x * fa.repeat(group, 1)) @ np.abs(y * fb.repeat(group, 1)).T * 2**-13
    return Data(arguments, 1, 4, torch.float32, want, bound + 1e-3)


MAKERS: dict[str, Callable[[Variant], Data]] = {
    "add": _add,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "sort": _sort,
    "cumsum": _cumsum,
    "dropout": _dropout,
    "transpose": _transpose,
    "histogram": _histogram,
    "gather": _gather,
    "atomic_sum": _atomic_sum,
    "dot": _dot,
    "matmul": _gemm,
    "matmul_tma": _gemm,
    "matmul_persistent": _gemm,
    "attention": _attention,
    "dot_scaled": _dot_scaled,
    "dot_scaled_tma": _dot_scaled,
}


# ---- compile, run ----------------------------------------------------------------------------------------


def compiled(sources: Sources) -> Path:
    """The folder of NAME.ptx and NAME.json, made once for each version of the kernels and of Triton."""
    texts = [(HERE / name).read_text() for name in ("triton_kernels.py", "triton_variants.py", "triton_translate.py")]
    key = hashlib.sha256("\0".join([WHEELS["triton"], *texts]).encode()).hexdigest()[:16]
    folder = sources.cache / f"triton-{key}"
    if not (folder / "complete").exists():
        environment = dict(os.environ, TRITON_CACHE_DIR=str(sources.cache / "triton-cache"))
        command = [str(sources.python()), str(HERE / "triton_translate.py"), str(folder)]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        (folder / "complete").touch()
    return folder


def run(folder: Path, variant: Variant, chip: int, data: Data, mode: str) -> dict:
    """One launch in one mode."""
    name = variant.name(chip)
    launch = json.loads((folder / f"{name}.json").read_text())
    if "refused" in launch:
        return {"failed": f"Triton refuses it: {launch['refused']}"}
    text = (folder / f"{name}.ptx").read_text()
    kind, _, seed = mode.partition(":")
    try:
        sim = Sim(text, mode=kind, seed=int(seed or 1))
    except PtxError as error:
        return {"failed": f"cannot be read: {error}"}
    arguments = [sim.buffer(each) if isinstance(each, np.ndarray) else each for each in data.arguments]
    grid = data.grid if isinstance(data.grid, tuple) else (data.grid, 1, 1)
    ctas = launch["ctas"]
    # Triton's launcher appends scratch memory for the tensor maps, so many bytes a CTA, and a profiler's.
    scratch = sim.register(aligned(max(launch["scratch"] * int(np.prod(grid)) * ctas, 1), np.uint8), "scratch")
    cluster = (ctas, 1, 1) if ctas > 1 else 0
    shape = (grid[0] * ctas, grid[1], grid[2])
    parameters = sim.lib.sim_parameter_count(sim.module, launch["entry"].encode())
    arguments += [scratch, scratch][: parameters - len(arguments)]
    status = sim.launch(
        launch["entry"], *arguments, grid=shape, block=launch["threads"], cluster=cluster, shared=launch["shared"]
    )
    got = values(arguments[data.result], str(data.kind).removeprefix("torch.")).reshape(data.want.shape)
    row = {"status": status, **compare(got, data.want, data.bound), "verdict": sim.verdict}
    findings = [each | {"verdict": VERDICTS[each["verdict"]]} for each in sim.findings]
    return row | {"findings": merged(findings)}


def cases() -> Iterator[Case]:
    """All variants on all their chips, in the table's order."""

    def prepare(variant: Variant, chip: int, sources: Sources) -> Callable[[str], dict]:
        folder, data = compiled(sources), MAKERS[variant.kernel](variant)
        return lambda mode: in_a_child(partial(run, folder, variant, chip, data, mode))

    for variant in variants():
        for chip in variant.chips:
            size = " x ".join(str(n) for n in variant.constants.values() if isinstance(n, int) and n is not True and n)
            name = variant.name(chip).rsplit("-", 1)[0]
            yield Case("triton", name, variant.shows, size, f"{chip}a", partial(prepare, variant, chip))
