"""The GeForce backend's kernels on the simulator, each as a module of its own, and their mutants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from reference.reference import check_against_oracle, generate_input
from simulator.python.frame import Sim, aligned
from simulator.python.toolchain import ROOT, built

UINT8, SWIZZLE_64B = 0, 2  # CUtensorMapDataType, CUtensorMapSwizzle
STAGE_K = 128
LOAD_WARPS = 4
CTAS = 2  # fewer than tiles, so that a CTA works on several


class Config(NamedTuple):
    """A row of geforce_config.h."""

    tile_m: int
    tile_n: int
    stages: int
    warps_m: int
    warps_n: int

    @property
    def threads(self) -> int:
        return 32 * (self.warps_m * self.warps_n + LOAD_WARPS)

    @property
    def template_arguments(self) -> str:
        """The tile's template arguments in a mangled name."""
        return "".join(f"Li{value}E" for value in self)

    @property
    def shared_bytes(self) -> int:
        stage = (self.tile_m + 2 * self.tile_n) * STAGE_K // 2 + (1 + 2 * (1 if 128 % self.tile_n == 0 else 2)) * 1024
        return self.stages * (stage + 16) + 1024

    @property
    def shape(self) -> tuple[int, int, int]:
        """Three tiles with rows and columns past the end; a CTA that works on two of them goes round the ring."""
        return self.tile_m - 3, 2 * self.tile_n + 8, STAGE_K * (self.stages // 2 + 1) + 64


CONFIGS = {
    name: Config(*map(int, row.split(",")))
    for name, row in re.findall(
        r"^ +X\((\w+), ([\d, ]+)\)", (ROOT / "submission/geforce/geforce_config.h").read_text(), re.M
    )
}


@cache
def kernels_ptx() -> str:
    """The PTX of all kernels of the backend, as the build keeps it."""
    return built("submission/geforce/geforce_kernels.ptx").read_text()


def module_of(symbol: str) -> str:
    """The only kernel whose name begins so, as a module."""
    text = kernels_ptx()
    head = text[: text.index(".entry")].rsplit("\n", 1)[0]
    files = "\n".join(re.findall(r"^\s*\.file\s.*$", text, re.M))
    body = re.search(rf"\.entry {symbol}.*?(?=\.(weak |visible )?\.?entry|\.file|\Z)", text, re.S)[0]
    return f"{head}\n{body}\n{files}\n"


@cache
def entries() -> dict[str, str]:
    """Each configuration's kernel as a module of its own."""
    symbol = "_ZN7geforce16dual_gemm_kernelINS_4tileI"
    return {name: module_of(symbol + config.template_arguments) for name, config in CONFIGS.items()}


@cache
def inputs(m: int, n: int, k: int) -> tuple[torch.Tensor, ...]:
    return generate_input(m=m, n=n, k=k, l=1, seed=3, device="cpu")


class Kernel(Sim):
    """Launches a configuration's kernel; `output` is C."""

    def __init__(self, name: str, text: str, mode: str = "eager", seed: int = 1) -> None:
        super().__init__(text, mode, seed)
        self.config = CONFIGS[name]
        self.m, self.n, self.k = self.config.shape
        self.entry = re.search(r"\.entry (\w+)", text)[1]
        as_bytes = lambda tensor: tensor.view(torch.uint8).numpy()  # noqa: E731
        a, b1, b2, _, _, _, sfa, sfb1, sfb2, _ = inputs(self.m, self.n, self.k)
        rows = [self.buffer(as_bytes(codes)[:, :, 0]) for codes in (a, b1, b2)]
        scales = [
            self.buffer(as_bytes(scale.permute(5, 2, 4, 0, 1, 3).contiguous()).reshape(-1, 512))
            for scale in (sfa, sfb1, sfb2)
        ]
        self.output = self.register(aligned((self.m, self.n), np.uint16))
        boxes = (self.config.tile_m, *[self.config.tile_n] * 2)
        self.params = b"".join(self.map_of(array, box) for array, box in zip(rows, boxes, strict=True))
        self.params += b"".join(array.ctypes.data.to_bytes(8, "little") for array in (*scales, self.output))

    def map_of(self, array: np.ndarray, rows: int) -> bytes:
        sizes, pitch = [array.shape[1], array.shape[0], 1], array.strides[0]
        box = [STAGE_K // 2, rows, 1]
        return self.tensor_map(array, UINT8, box, SWIZZLE_64B, sizes, [pitch, pitch * array.shape[0]])

    def run(self, dependent: int = 0) -> int:
        tiles = (-(-self.m // self.config.tile_m), -(-self.n // self.config.tile_n))
        numbers = np.array([self.m, self.n, self.k // 64, *tiles, tiles[0] * tiles[1]], np.int32)
        shape = {"grid": CTAS, "block": self.config.threads, "shared": self.config.shared_bytes, "cluster": 1}
        return self.launch(self.entry, self.params + numbers.tobytes(), **shape, dependent=dependent)

    def is_right(self) -> bool:
        output = torch.from_numpy(self.output.copy()).view(torch.float16)[:, :, None]
        return check_against_oracle(inputs(self.m, self.n, self.k), output)[0]


# Pattern and replacement of one occurrence at a time; the verdict, and kinds of which one must be reported.
WAITS = {"read-before-completion", "overwrite-while-read", "double-write", "mbarrier-arrivals", "missed-phase"}
MUTANTS = {
    "no fence after mbarrier.init": (r"fence\.mbarrier_init[^;]*;", "", "review", {"mbarrier-init-fence"}),
    "no barrier after mbarrier.init": (r"bar(rier)?\.sync[^;]*;", "", "error", {"mbarrier-init-race", "no-mbarrier"}),
    "no wait for a barrier": (r"mbarrier\.try_wait[^;]* p, [^;]*;", "setp.eq.u32 p, 0, 0;", "error", WAITS),
    "the other parity": (
        r"(mbarrier\.try_wait[^;]* p, \[%r\d+\], )(%r\d+);",
        r"{ .reg .b32 other; xor.b32 other, \2, 1; \1other; }",
        "error",
        WAITS | {"deadlock"},
    ),
    "no arrival at empty": (r"mbarrier\.arrive\.shared[^;]*;", "", "error", {"deadlock"}),
    "the warp does not meet before it arrives": (
        r"bar\.warp\.sync[^;]*;(?=[^}]*?mbarrier\.arrive\.shared)", "", "review", {"elected-signal"},
    ),
    "one arrival is enough for empty": (
        r"mov\.b32\s+(%r\d+), 8;(?=\s.{,80}?mbarrier\.init)", r"mov.b32 \1, 1;", "error",
        WAITS | {"mbarrier-arrivals"},
    ),
    "too few bytes": (r"(mbarrier\.arrive\.expect_tx[^;]*, )[%\w]+;", r"\g<1>16;", "error", {"deadlock", "tx-count"}),
    "no griddepcontrol.wait": (r"griddepcontrol\.wait;", "", "error", {"missing-griddepcontrol-wait"}),
}  # fmt: skip


def mutants(text: str) -> Iterator[tuple[str, str, str, set[str]]]:
    """Yields each mutant: its alteration, its text, the verdict, and kinds of findings of which one must appear."""
    for what, (pattern, replacement, *expected) in MUTANTS.items():
        found = list(re.finditer(pattern, text, re.S))
        assert found, what
        for match in found:
            yield what, text[: match.start()] + match.expand(replacement) + text[match.end() :], *expected
