"""Calls of custom_kernel whose outputs on an H200 and on the simulator are compared.

    ./nvfp4 validate h200.hopper_cases FOLDER NAME...   writes a .npz for each case: digests, a sample of the output

Runs on a CUDA device, or with NVFP4_SIMULATE=1 on the simulator.  Inputs come from raw PCG64 words, which are the same
in every version of numpy; torch draws nothing.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
SAMPLE, COMMITTED_SAMPLE = 1 << 16, 1 << 12  # outputs kept of a case: by `card`, in the tests' fixture
SECONDS_A_CASE = 30 if os.environ.get("NVFP4_SIMULATE") != "1" else 600
MAX_FINITE_SCALE, NAN_SCALE, SMALL_SCALE, ONE_SCALE = 0x7E, 0x7F, 0x04, 0x38  # e4m3 bytes
LARGEST_OF_ROW = (MAX_FINITE_SCALE, ONE_SCALE, 0x30, 0x28)  # the largest, 1, 1/2, 1/4
LEADERBOARD_CODES = 0xBB
MAGNITUDES = 0x77  # magnitude bits of the two codes in a byte
SIGNS = 0x88


# Names of the configurations (rows of B x rows of A) at the time of the recording: its keys and the inputs' seeds hold
# them.  It also has f96x64 and f64x256k2, which no longer exist.
RECORDED_AS = {
    "m128n64": "f64x128",
    "m256n64": "f64x256",
    "m128n96": "f96x128",
    "m128n96k2": "f96x128k2",
}

# Adds up in two halves since round 62, so what truncation leaves is other than then; not recorded anew yet.
IN_ANOTHER_ORDER = {"m128n64"}


class Case(NamedTuple):
    """A call: what it computes on which tile configuration (empty: the library's choice)."""

    m: int
    n: int
    k: int
    batches: int
    kind: str
    config: str = ""
    layout: str = "blocked"

    @property
    def name(self) -> str:
        """The case's key in the record."""
        shape = "x".join(map(str, self[:4]))
        return f"{self.kind}.{shape}.{self.layout}.{RECORDED_AS.get(self.config, self.config) or 'auto'}"

    @property
    def macs(self) -> int:
        return 2 * self.m * self.n * self.k * self.batches


def configs() -> list[str]:
    """The tile configurations of the Hopper backend whose outputs a card has recorded."""
    return list(RECORDED_AS)


def leaderboard(name: str) -> list[tuple[int, int, int]]:
    """The shapes of a case file, each once."""
    lines = (ROOT / f"reference/problems/dual_gemm/{name}.txt").read_text().splitlines()
    shapes = [tuple(int(re.search(rf"\b{x}: *(\d+)", line)[1]) for x in "mnk") for line in lines if line.strip()]
    return list(dict.fromkeys(shapes))


def cases() -> list[Case]:
    """All of them.

    board: the leaderboard's codes and scale factors.  full: every code, finite scale factor and sign.  nan: full, with
    NaN scale factors.  residue: what the sums' truncation leaves, see inputs().
    """
    edges = (
        (1, 1, 64, 1),
        (40, 72, 64, 3),
        (129, 200, 192, 3),
        (200, 1000, 192, 1),
        (1000, 40, 256, 1),
        (300, 7, 320, 2),
    )
    found = [Case(*shape, 1, "board") for shape in leaderboard("test") + leaderboard("benchmark")]
    found += [
        Case(*shape, kind, "", layout)
        for shape in edges
        for kind, layout in (("full", "blocked"), ("full", "rows"), ("board", "blocked"))
    ]
    found += [Case(200, 200, 448, 1, "nan"), Case(256, 512, 7168, 1, "residue"), Case(248, 184, 3072, 2, "residue")]
    for config in configs():
        found += [
            Case(248, 184, 1280, 1, "full", config),
            Case(248, 184, 1280, 1, "board", config),
            Case(248, 184, 704, 2, "full", config, "rows"),
        ]
        if config not in IN_ANOTHER_ORDER:
            found += [
                Case(248, 184, 704, 2, "residue", config, "rows"),
                Case(256, 248, 2048, 1, "residue", config),
            ]
    return found


def inputs(case: Case) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Codes (L, rows, K/2) and scale factors (L, rows, K/16) of A, B1 and B2.

    full: the rows' largest scale factors differ, so that some outputs overflow and others do not.
    residue: every other quarter of K repeats the one before it with B2's signs flipped.  The quarters cancel, so the up
    sum holds only what truncation lost at each step, and every digit of the output depends on the order of additions.
    A and B1 are positive and their product is above 18: SiLU is the identity there, so no approximate function takes
    part.
    """
    seed = int.from_bytes(hashlib.sha256(case.name.encode()).digest()[:8], "little")
    generator = np.random.PCG64(seed)

    def random_bytes(*shape: int) -> np.ndarray:
        count = int(np.prod(shape))
        return generator.random_raw((count + 7) // 8).astype("<u8").view(np.uint8)[:count].reshape(shape)

    codes, scales = [], []
    for operand, rows in enumerate((case.m, case.n, case.n)):
        code = random_bytes(case.batches, rows, case.k // 2)
        scale = random_bytes(case.batches, rows, case.k // 16)
        if case.kind == "board":
            code, scale = code & LEADERBOARD_CODES, scale % ONE_SCALE
        elif case.kind == "residue":
            quarter = case.k // 4
            code = code if operand == 2 else code & MAGNITUDES
            scale = scale % (MAX_FINITE_SCALE + 1) if operand != 1 else scale % 2 + SMALL_SCALE
            for start in (0, 2 * quarter):
                first, second = (slice(at // 2, (at + quarter) // 2) for at in (start, start + quarter))
                code[:, :, second] = code[:, :, first] ^ (SIGNS if operand == 2 else 0)
                first, second = (slice(at // 16, (at + quarter) // 16) for at in (start, start + quarter))
                scale[:, :, second] = scale[:, :, first]
        else:
            largest = np.array(LARGEST_OF_ROW, np.uint8)[np.arange(rows) % len(LARGEST_OF_ROW)]
            scale = (scale & 0x80) | (scale & 0x7F) % (largest[:, None] + 1)
            if case.kind == "nan":
                scale[random_bytes(*scale.shape) == 0] = NAN_SCALE
        codes.append(code)
        scales.append(scale)
    return codes, scales


def blocked(scales: np.ndarray) -> np.ndarray:
    """(L, rows, K/16) -> memory (L, rows/128, K/64, 32, 4, 4), padded with NaN."""
    batches, rows, groups = scales.shape
    tiles = -(-rows // 128)
    padded = np.full((batches, tiles * 128, groups), NAN_SCALE, np.uint8)
    padded[:, :rows] = scales
    split = padded.reshape(batches, tiles, 4, 32, groups // 4, 4)
    return np.ascontiguousarray(split.transpose(0, 1, 4, 3, 2, 5))


def run(case: Case) -> dict[str, np.ndarray | str]:
    """Calls the kernel; digests of inputs and output, and a sample of the output."""
    import torch

    from submission.submission import custom_kernel

    device = "cpu" if os.environ.get("NVFP4_SIMULATE") == "1" else "cuda"
    codes, scales = inputs(case)
    digest = hashlib.sha256(b"".join(x.tobytes() for x in codes + scales)).hexdigest()

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    packed = [tensor(x).view(torch.float4_e2m1fn_x2).permute(1, 2, 0) for x in codes]
    by_rows = [tensor(x).view(torch.float8_e4m3fn).permute(1, 2, 0) for x in scales]
    permuted = [tensor(blocked(x)).view(torch.float8_e4m3fn).permute(3, 4, 1, 5, 2, 0) for x in scales]
    c = torch.full((case.batches, case.m, case.n), float("nan"), dtype=torch.float16, device=device).permute(1, 2, 0)
    os.environ["NVFP4_HOPPER_CONFIG"] = case.config
    custom_kernel((*packed, *by_rows, *permuted, c) if case.layout == "blocked" else (*packed, *by_rows, c))
    output = c.permute(2, 0, 1).contiguous().view(torch.int16).cpu().numpy().view(np.uint16).ravel()
    return {"inputs": digest, "output": hashlib.sha256(output.tobytes()).hexdigest(), "sample": sample(output, SAMPLE)}


def sample(output: np.ndarray, most: int) -> np.ndarray:
    """Evenly spread elements of the output, or all of them where they are few."""
    return output if output.size <= most else output[np.arange(most) * output.size // most]


def simulate(folder: Path, wanted: list[Case]) -> None:
    """Runs calls on the simulator; writes a .npz file for each into the folder."""
    environment = os.environ | {"NVFP4_SIMULATE": "1"}
    command = [sys.executable, "-m", "simulator.validation.h200.hopper_cases", folder, *(case.name for case in wanted)]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


def ulps(halves: np.ndarray) -> np.ndarray:
    """fp16 bits as integers whose difference counts units in the last place; both zeros are one value, and all NaNs."""
    magnitude = (halves & 0x7FFF).astype(np.int32)
    return np.where(magnitude > 0x7C00, 0x10000, np.where(halves & 0x8000, -magnitude, magnitude))


def main(arguments: list[str]) -> None:
    every = cases()
    parser = argparse.ArgumentParser(
        prog="./nvfp4 validate h200.hopper_cases",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+", choices=[case.name for case in every], metavar="NAME")
    options = parser.parse_args(arguments)
    os.environ["NVFP4_BACKEND"] = "hopper"
    folder = options.folder
    for case in every:
        if case.name in options.names:
            faulthandler.dump_traceback_later(SECONDS_A_CASE, exit=True)
            np.savez(folder / f"{case.name}.npz", **run(case))
            faulthandler.cancel_dump_traceback_later()
            print(case.name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
