"""The GeForce backend's grouped kernels on the simulator, each as a module of its own."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import torch

from simulator.python.frame import Sim, aligned
from simulator.python.toolchain import ROOT
from simulator.validation.mutants.backends.blackwell_grouped import Group
from simulator.validation.mutants.backends.geforce_dual import CTAS, STAGE_K, SWIZZLE_64B, UINT8, Config, module_of

CONFIGS = {
    name: Config(*map(int, row.split(",")))
    for name, row in re.findall(
        r"^ +X\((\w+), ([\d, ]+)\)", (ROOT / "submission/geforce/grouped/geforce_grouped_config.h").read_text(), re.M
    )
}
GROUP_BYTES, FEW_GROUPS = 384, 8  # size of struct geforce_group; length of the array in struct geforce_few_groups


@cache
def entries() -> dict[str, str]:
    """Each configuration's kernel of few groups as a module of its own."""
    symbol = "_ZN7geforce19grouped_gemm_kernelINS_12grouped_tileI"
    return {
        name: module_of(f"{symbol}{config.template_arguments}EE18geforce_few_groups")
        for name, config in CONFIGS.items()
    }


class Kernel(Sim):
    """Launches a configuration's kernel on two groups; `outputs` are their C."""

    def __init__(self, name: str, text: str, mode: str = "eager", seed: int = 1) -> None:
        super().__init__(text, mode, seed)
        self.config = CONFIGS[name]
        self.columns = 2 * self.config.tile_n
        self.entry = re.search(r"\.entry (\w+)", text)[1]
        rng = np.random.default_rng(5)
        # Three tiles, of which a CTA takes two and goes round the ring; and fewer rows and columns than a tile.
        self.groups = [
            Group(self.config.tile_m - 3, 2 * self.columns + 8, STAGE_K * (self.config.stages // 2 + 1) + 64, rng),
            Group(40, 56, 320, rng),
        ]
        self.outputs = [self.register(aligned((group.m, group.n), np.uint16)) for group in self.groups]
        self.params, self.tiles = b"", 0
        for group, output in zip(self.groups, self.outputs, strict=True):
            self.params += self.describe(group, output).ljust(GROUP_BYTES, b"\0")
        counts = np.array([len(self.groups), self.tiles], np.int32)
        self.params = self.params.ljust(FEW_GROUPS * GROUP_BYTES, b"\0") + counts.tobytes()

    def describe(self, group: Group, output: np.ndarray) -> bytes:
        """struct geforce_group."""
        rows = [self.buffer(x.numpy()) for x in group.codes]
        boxes = (self.config.tile_m, self.config.tile_n)
        maps = [self.map_of(array, box) for array, box in zip(rows, boxes, strict=True)]
        scales = [
            self.buffer(x.view(torch.uint8).permute(5, 2, 4, 0, 1, 3).contiguous().numpy().reshape(-1, 512))
            for x in group.blocked
        ]
        pointers = [array.ctypes.data.to_bytes(8, "little") for array in (*scales, output)]
        tiles_m = -(-group.m // self.config.tile_m)
        numbers = np.array((group.m, group.n, group.k // 64, self.tiles, tiles_m), np.int32)
        self.tiles += tiles_m * -(-group.n // self.columns)
        return b"".join([*maps, *pointers, numbers.tobytes()])

    def map_of(self, array: np.ndarray, rows: int) -> bytes:
        sizes, pitch = [array.shape[1], array.shape[0], 1], array.strides[0]
        return self.tensor_map(array, UINT8, [STAGE_K // 2, rows, 1], SWIZZLE_64B, sizes, [pitch, pitch * len(array)])

    def run(self, dependent: int = 0) -> int:
        shape = {"grid": CTAS, "block": self.config.threads, "shared": self.config.shared_bytes, "cluster": 1}
        return self.launch(self.entry, self.params, **shape, dependent=dependent)

    def is_right(self) -> bool:
        return all(
            (output.view(np.float16) == group.want).all()
            for output, group in zip(self.outputs, self.groups, strict=True)
        )
