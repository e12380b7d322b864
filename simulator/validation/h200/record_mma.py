"""Makes the cases that record_mma.cu runs on a card, and packs its results into the fixture of test_recorded_sums.py.

./nvfp4 validate h200.record_mma cases CASES [COUNT]        writes COUNT cases for each instruction (default 8)
./nvfp4 validate h200.record_mma pack CASES RESULTS FILE    packs both into a .npz.xz file
./nvfp4 validate h200.record_mma compare CASES RESULTS      counts the elements that differ from the C rules
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from simulator.python.tensorcore import RELU, SATFINITE, Rule, from_f32, mma, rule
from simulator.validation.h200.recordings import save_arrays

ROWS, COLUMNS = 64, 8
PACKED_ROWS, PACKED_FLOATS = 16, 2048
CASE = np.dtype([("a", np.uint32, (ROWS, 8)), ("b", np.uint32, (COLUMNS, 8)), ("c", np.uint32, (ROWS, COLUMNS))])

# In the order of record_mma.cu: name, C rule, formats of A and B.
INSTRUCTIONS = [
    ("wgmma f16", rule("wgmma", "f16", "f16"), "f16", "f16"),
    ("wgmma bf16", rule("wgmma", "bf16", "bf16"), "bf16", "bf16"),
    ("wgmma tf32", rule("wgmma", "tf32", "tf32"), "tf32", "tf32"),
    ("wgmma e4m3", rule("wgmma", "e4m3", "e4m3"), "e4m3", "e4m3"),
    ("wgmma e4m3 e5m2", rule("wgmma", "e4m3", "e5m2"), "e4m3", "e5m2"),
    ("wgmma f16 to f16", rule("wgmma", "f16", "f16", "f16"), "f16", "f16"),
    ("wgmma e5m2 e4m3 to f16", rule("wgmma", "e5m2", "e4m3", "f16"), "e5m2", "e4m3"),
    ("mma f16", rule("mma_sync", "f16", "f16", k=16), "f16", "f16"),
    ("mma bf16", rule("mma_sync", "bf16", "bf16", k=16), "bf16", "bf16"),
    ("mma tf32", rule("mma_sync", "tf32", "tf32", k=8), "tf32", "tf32"),
    ("mma e4m3 e5m2", rule("mma_sync", "e4m3", "e5m2", k=32), "e4m3", "e5m2"),
]
CONVERSIONS = [
    ("f16", "rn", 0),
    ("f16", "rz", 0),
    ("f16", "rn", RELU),
    ("f16", "rn", SATFINITE),
    ("bf16", "rn", 0),
    ("bf16", "rz", 0),
    ("bf16", "rn", RELU),
    ("bf16", "rn", SATFINITE),
    ("tf32", "rna", 0),
    ("tf32", "rn", 0),
    ("tf32", "rz", RELU),
    ("e4m3", "rn", SATFINITE),
    ("e4m3", "rn", SATFINITE | RELU),
    ("e5m2", "rn", SATFINITE),
    ("e5m2", "rn", SATFINITE | RELU),
]
# bits, fraction bits, a usual exponent field
LAYOUT = {"f16": (16, 10, 14), "bf16": (16, 7, 126), "tf32": (32, 23, 126), "e4m3": (8, 3, 6), "e5m2": (8, 2, 14)}
STYLES = ("near", "spread", "any", "sparse", "subnormal", "wide zeros", "cancel", "ones", "tiny")


def operand(rng: np.random.Generator, fmt: str, rows: int, style: str) -> np.ndarray:
    """Random operand words in a style: `rows` rows of 32 bytes."""
    bits, fraction, usual = LAYOUT[fmt]
    shape = rows, 256 // bits
    x = rng.integers(0, 1 << bits, shape)
    top = (1 << (bits - 1 - fraction)) - 1
    rest = (1 << bits - 1) | (1 << fraction) - 1
    if style in ("near", "cancel"):
        x = x & rest | rng.integers(usual, usual + 3, shape) << fraction
    elif style in ("spread", "sparse"):
        low, high = (1, top - 1) if bits < 16 or fmt == "f16" else (usual - 30, usual + 30)
        x = x & rest | rng.integers(low, high, shape) << fraction
    elif style == "subnormal":
        x = np.where(rng.random(shape) < 0.7, x & rest, x & rest | usual << fraction)
    elif style == "wide zeros":  # zeros times the largest numbers, and small products
        kind = rng.integers(0, 3, shape)
        x = np.where(
            kind == 0, x & (1 << bits - 1), x & rest | np.where(kind == 1, top - 1, 1 + usual // 2) << fraction
        )
    elif style == "ones":
        x = np.full(shape, (usual + 1) << fraction)
    elif style == "tiny":  # products near the smallest f32
        low, high = (46, 60) if usual == 126 else (0, 2)
        x = x & rest | rng.integers(low, high, shape) << fraction
    if style == "sparse":
        x = np.where(rng.random(shape) < 0.6, 0, x)
    if style == "cancel":
        x[:, 1::2] = x[:, 0::2] ^ (1 << bits - 1) * (rng.random(x[:, 0::2].shape) < 0.5)
    return np.ascontiguousarray(x.astype({8: np.uint8, 16: np.uint16, 32: np.uint32}[bits])).view(np.uint32)


def make_case(rng: np.random.Generator, a: str, b: str, half: bool, style: str) -> np.ndarray:
    case = np.zeros((), CASE)
    case["a"] = operand(rng, a, ROWS, style)
    case["b"] = operand(rng, b, COLUMNS, style)
    c = rng.integers(0, 1 << 32, (ROWS, COLUMNS), dtype=np.uint32)
    if half:
        c &= np.uint32(0xFFFF if style == "any" else 0x8000 if style == "ones" else 0xBFFF)
    elif style == "tiny":
        c = np.where(rng.random(c.shape) < 0.7, c & np.uint32(0x80000000), c & np.uint32(0x80000FFF))
    elif style in ("wide zeros", "ones"):
        c = np.where(rng.random(c.shape) < 0.5, 0, c & np.uint32(0x807FFFFF) | np.uint32(100 << 23))
    elif style != "any":
        low, high = [(120, 135), (60, 200), (0, 30), (145, 160)][int(rng.integers(4))]
        c = c & np.uint32(0x807FFFFF) | rng.integers(low, high, c.shape, dtype=np.uint32) << np.uint32(23)
    case["c"] = c
    return case


def cases(count: int) -> Iterator[np.ndarray]:
    for index, (name, _, a, b) in enumerate(INSTRUCTIONS):
        rng = np.random.default_rng(index)
        yield np.array([make_case(rng, a, b, "to f16" in name, STYLES[i % len(STYLES)]) for i in range(count)])


def floats(count: int) -> np.ndarray:
    rng = np.random.default_rng(99)
    bits = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    near = count // 2
    bits[:near] = bits[:near] & np.uint32(0x807FFFFF) | rng.integers(100, 147, near, dtype=np.uint32) << np.uint32(23)
    for i, mask in enumerate((0xFFFF0000, 0xFFFFF000, 0xFFF80000, 0xFFC00000)):
        bits[i::16] &= np.uint32(mask)
    bits[:8] = [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000, 0x7F7FFFFF, 0xFF7FFFFF]
    return bits


def read(path_cases: Path, path_results: Path) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray, np.ndarray]:
    """Cases and results of each instruction; the floats and their codes."""
    data, results = path_cases.read_bytes(), path_results.read_bytes()
    at = done = 0
    out = []
    for _ in INSTRUCTIONS:
        count = int(np.frombuffer(data, np.uint32, 1, at)[0])
        group = np.frombuffer(data, CASE, count, at + 4)
        at += 4 + group.nbytes
        d = np.frombuffer(results, np.uint32, count * ROWS * COLUMNS, done).reshape(count, ROWS, COLUMNS)
        done += d.nbytes
        out.append((group, d))
    count = int(np.frombuffer(data, np.uint32, 1, at)[0])
    x = np.frombuffer(data, np.uint32, count, at + 4)
    return out, x, np.frombuffer(results, np.uint32, count * len(CONVERSIONS), done).reshape(count, -1)


def differing(instruction: tuple[str, Rule, str, str], group: np.ndarray, d: np.ndarray) -> list[tuple[int, int, int]]:
    """Places (case, row, column) where the C rule and the card disagree."""
    _, in_c, _, _ = instruction
    found = []
    for i, case in enumerate(group):
        a, b = (np.ascontiguousarray(case[x]).view(np.uint8) for x in "ab")
        found += [(i, *at) for at in np.argwhere(mma(in_c, a, b, case["c"]) != d[i])]
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="./nvfp4 validate h200.record_mma",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, further in (("cases", ()), ("pack", ("results", "file")), ("compare", ("results",))):
        command = commands.add_parser(name)
        for argument in ("cases", *further):
            command.add_argument(argument, type=Path)
    commands.choices["cases"].add_argument("count", type=int, nargs="?", default=8)
    options = parser.parse_args(arguments)
    if options.command == "cases":
        count = options.count
        with options.cases.open("wb") as out:
            for group in cases(count):
                out.write(np.uint32(count).tobytes() + group.tobytes())
            x = floats(max(4096, 512 * count))
            out.write(np.uint32(x.size).tobytes() + x.tobytes())
    elif options.command == "pack":
        groups, x, codes = read(options.cases, options.results)
        arrays = {}
        for i, (group, d) in enumerate(groups):  # a case of each style, 16 rows each
            keep = len(STYLES)
            arrays |= {f"{name}{i}": group[name][:keep, :PACKED_ROWS] for name in "ac"}
            arrays |= {f"b{i}": group["b"][:keep], f"d{i}": d[:keep, :PACKED_ROWS]}
        save_arrays(options.file, {"x": x[:PACKED_FLOATS], "codes": codes[:PACKED_FLOATS]} | arrays)
    else:
        groups, x, codes = read(options.cases, options.results)
        for instruction, (group, d) in zip(INSTRUCTIONS, groups, strict=True):
            bad = differing(instruction, group, d)
            styles = {
                STYLES[i % len(STYLES)]: sum(1 for b in bad if b[0] % len(STYLES) == i) for i in range(len(STYLES))
            }
            print(f"{instruction[0]:24} {d.size} elements, {len(bad)} differ {styles if bad else ''}")
            for i, row, column in bad[:3]:
                got = mma(
                    instruction[1], *(np.ascontiguousarray(group[i][x]).view(np.uint8) for x in "ab"), group[i]["c"]
                )
                print(f"    case {i} [{row}, {column}]: card {d[i, row, column]:#010x}, rule {got[row, column]:#010x}")
        for j, (fmt, mode, flags) in enumerate(CONVERSIONS):
            mine = from_f32(fmt, x.view(np.float32), mode, flags)
            bad = np.flatnonzero(mine != codes[:, j])
            print(f"cvt.{mode} {fmt} {flags}: {x.size} values, {len(bad)} differ")
            for i in bad[:3]:
                print(f"    {x[i]:#010x}: card {codes[i, j]:#x}, ours {mine[i]:#x}")


if __name__ == "__main__":
    main(sys.argv[1:])
