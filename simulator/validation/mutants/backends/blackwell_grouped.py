"""The Blackwell backend's grouped kernels on the simulator, each as a module of its own, and their mutants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import numpy as np
import torch

from reference import nvfp4
from reference.nvfp4 import GROUP_ELEMS
from simulator.python.frame import Sim, aligned
from simulator.python.toolchain import ROOT
from simulator.validation.mutants.backends.blackwell_dual import (
    BUT_FIRST,
    EVERY,
    OF_A_PAIR,
    OF_STACKED,
    OF_STORED,
    SHARED,
    STAGE_BYTES_K,
    SWIZZLE_128B,
    THREADS,
    TILE_M,
    UINT8,
    UINT16,
    Config,
    module_of,
    mutants_at,
    template_arguments,
)

CONFIGS = {
    name: Config(*map(int, row.split(",")))
    for name, row in re.findall(
        r"^ +X\((\w+), ([\d, ]+)\)",
        (ROOT / "submission/blackwell/grouped/blackwell_grouped_config.h").read_text(),
        re.M,
    )
}
ROWS = (130, 40)  # rows of the two groups: two tiles (or one of a pair), and less than a tile
GROUP_BYTES, FEW_GROUPS = 640, 8  # size of struct blackwell_group; length of the array in struct blackwell_few_groups


@cache
def entries() -> dict[str, str]:
    """Each configuration's kernel of few groups as a module of its own."""
    symbol = "_ZN9blackwell19grouped_gemm_kernelINS_12grouped_tileI"
    return {
        name: module_of(f"{symbol}{template_arguments(config[:5])}EE20blackwell_few_groups")
        for name, config in CONFIGS.items()
    }


class Group:
    """Random codes and scale factors whose sums are exact, as tensors that a kernel takes, and the result."""

    def __init__(self, m: int, n: int, k: int, rng: np.random.Generator) -> None:
        self.m, self.n, self.k = m, n, k
        self.codes = [torch.from_numpy(rng.integers(0, 256, (rows, k // 2), dtype=np.uint8) & 0xBB) for rows in (m, n)]
        factors = [rng.choice(np.array([0x38, 0x40], np.uint8), (rows, k // GROUP_ELEMS, 1)) for rows in (m, n)]
        scales = [torch.from_numpy(x).view(torch.float8_e4m3fn) for x in factors]
        self.blocked = [nvfp4.to_blocked(x) for x in scales]
        a, b = (
            nvfp4.decode(x.view(torch.float4_e2m1fn_x2), y[..., 0]) for x, y in zip(self.codes, scales, strict=True)
        )
        self.want = (a.double() @ b.double().T).half().numpy()


class Kernel(Sim):
    """Launches a configuration's kernel on two groups; `outputs` are their C."""

    def __init__(self, name: str, text: str, mode: str = "eager", seed: int = 1) -> None:
        super().__init__(text, mode, seed)
        self.config = CONFIGS[name]
        self.columns = 2 * self.config.tile_n
        self.entry = re.search(r"\.entry (\w+)", text)[1]
        rng = np.random.default_rng(5)
        # K that goes round the ring and ends within a stage; more columns than a tile, and fewer.
        self.groups = [
            Group(ROWS[0], self.columns + 64, 256 * (self.config.stages + 1) + 64, rng),
            Group(ROWS[1], 72, 320, rng),
        ]
        self.outputs = [self.register(aligned((group.m, group.n), np.uint16)) for group in self.groups]
        self.params, self.tiles, first_tiles = b"", 0, []
        for group, output in zip(self.groups, self.outputs, strict=True):
            first_tiles.append(self.tiles)
            self.params += self.describe(group, output).ljust(GROUP_BYTES, b"\0")
        first_tiles += [2**31 - 1] * (FEW_GROUPS - len(first_tiles))
        self.params = self.params.ljust(FEW_GROUPS * GROUP_BYTES, b"\0")
        self.params += np.array([self.tiles, *first_tiles], np.int32).tobytes()

    def describe(self, group: Group, output: np.ndarray) -> bytes:
        """struct blackwell_group."""
        rows = [self.buffer(x.numpy()) for x in group.codes]
        tiles = [
            self.buffer(x.view(torch.uint8).permute(5, 2, 4, 0, 1, 3).contiguous().numpy().reshape(-1, 512))
            for x in group.blocked
        ]
        boxes = (TILE_M, self.config.b_box_rows)
        maps = [self.map_of(array, UINT8, box, SWIZZLE_128B) for array, box in zip(rows, boxes, strict=True)]
        maps += [self.map_of(array.view(np.uint16), UINT16, 4, 0) for array in tiles]
        tiles_m = -(-group.m // (TILE_M * self.config.ctas))
        numbers = (group.m, group.n, group.k // 64, 0, tiles_m)
        self.tiles += tiles_m * -(-group.n // self.columns)
        return b"".join(maps) + output.ctypes.data.to_bytes(8, "little") + np.array(numbers, np.int32).tobytes()

    def map_of(self, array: np.ndarray, kind: int, rows: int, swizzle: int) -> bytes:
        width = array.shape[1] if kind == UINT16 else STAGE_BYTES_K
        sizes, pitch = [array.shape[1], array.shape[0], 1], array.strides[0]
        return self.tensor_map(array, kind, [width, rows, 1], swizzle, sizes, [pitch, pitch * array.shape[0]])

    def run(self, dependent: int = 0) -> int:
        shape = {"grid": self.tiles * self.config.ctas, "cluster": self.config.ctas}
        return self.launch(self.entry, self.params, **shape, block=THREADS, shared=SHARED, dependent=dependent)

    def is_right(self) -> bool:
        return all(
            (output.view(np.float16) == group.want).all()
            for output, group in zip(self.outputs, self.groups, strict=True)
        )


# Only code that the dual GEMM does not have: the waits, fences and loads of the grouped epilogue, and copies with other
# counts of bytes, some of which one CTA of a pair makes for both.
_OWN = {
    "no wait for a barrier": EVERY,
    "no fence after a wait": BUT_FIRST,
    "no wait for a load": EVERY,
    "too few bytes": EVERY,
}
PLACES = {
    "m256n128": _OWN | {"no commit": EVERY, "commits to one CTA": EVERY, "the second CTA signals itself": EVERY},
    "m128n256": _OWN,
}
# Copies of scale factors, of one scale tile or of two.
COPIES = r"cp\.async\.bulk\.tensor\.3d[^;]*;"


def mutants(name: str, text: str) -> Iterator[tuple[str, str, str, set[str]]]:
    absent = OF_STACKED | OF_STORED | (set() if CONFIGS[name].ctas == 2 else OF_A_PAIR)
    yield from mutants_at(PLACES[name], absent, text)
    for match in re.finditer(COPIES, text):
        yield "no copy", text[: match.start()] + text[match.end() :], "error", {"deadlock"}
