"""Runs many instructions in one kernel on the same rows of values, with one thread per row.

A text names its operands {d} (the result), {a}, {b}, {c}, {e}, and {p} and {q} (predicates: the input's low bit).  The
result has 16, 32 or 64 bits, or is a predicate ("p"), and is compared bit for bit with a function of the row's Python
integers.  A single instruction runs in two halves, odd rows first, to show that it leaves other lanes' registers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from simulator.tests.sim_kit import Sim, aligned, body

WORD = {"p": np.uint32, 16: np.uint16, 32: np.uint32, 64: np.uint64}
REGISTER = {16: "%rs", 32: "%r", 64: "%rd"}
CTA = 256
ODD, MARK = "%p9", 0x2FA3
# Results depend on which lanes take part, or the text has a predicate or braces: not run in two halves.
OF_THE_WARP = (".sync", "activemask", "@", "{")


def bits_of(array: np.ndarray) -> int:
    return 8 * array.dtype.itemsize


def evaluate(
    rows: Sequence[tuple[str, int | str]], inputs: dict[str, np.ndarray], chip: str = "sm_90a"
) -> list[np.ndarray]:
    """The results of each instruction. Inputs are arrays of one length; p and q become predicates."""
    count = len(next(iter(inputs.values())))
    lines = [
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;",
        f"setp.ge.u32 %p1, %r1, {count}; @%p1 exit; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 8;",
        f"add.u64 %rd1, %rd1, %rd2; and.b32 %r4, %r1, 1; setp.ne.u32 {ODD}, %r4, 0; mov.pred %p8, 0;",
    ]
    names = {}
    for i, (name, values) in enumerate(inputs.items()):
        width = bits_of(values)
        register = f"{REGISTER[width]}{20 + i}"
        names[name] = register
        lines.append(
            f"ld.param.u64 %rd3, [in{i}]; mul.wide.u32 %rd4, %r1, {width // 8}; add.u64 %rd3, %rd3, %rd4;"
            f" ld.global.b{width} {register}, [%rd3];"
        )
        if name in "pq":
            names[name] = f"%p{10 + i}"
            lines.append(f"and.b32 %r4, {register}, 1; setp.ne.u32 {names[name]}, %r4, 0;")
    for i, (text, width) in enumerate(rows):
        target = "%p2" if width == "p" else f"{REGISTER[width]}10"
        instruction = text.format(d=target, **names)
        if width != "p" and instruction.count(";") == 1 and not any(word in instruction for word in OF_THE_WARP):
            instruction = (
                f"mov.b{width} {target}, {MARK}; @{ODD} {instruction} setp.ne.b{width} %p7, {target}, {MARK};"
                f" @!{ODD} or.pred %p8, %p8, %p7; @!{ODD} {instruction}"
            )
        lines.append(instruction)
        if width == "p":
            lines.append("selp.u32 %r10, 1, 0, %p2;")
        bits = 32 if width == "p" else width
        lines.append(f"st.global.b{bits} [%rd1+{i * 8 * count}], {REGISTER[bits]}10;")
    lines.append("@%p8 trap;")
    params = ".param .u64 out" + "".join(f", .param .u64 in{i}" for i in range(len(inputs)))
    sim = Sim(body(*lines, params=params).replace("sm_90a", chip))
    out = sim.register(aligned((len(rows), count), np.uint64))
    arrays = [sim.buffer(values) for values in inputs.values()]
    assert sim.launch("k", out, *arrays, grid=-(-count // CTA), block=CTA) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return [row.view(np.uint8).reshape(count, 8)[:, : np.dtype(WORD[w]).itemsize].copy().view(WORD[w])[:, 0]
            for row, (_, w) in zip(out, rows, strict=True)]  # fmt: skip


def check(
    table: dict[str, tuple[int | str, Callable[..., int]]], inputs: dict[str, np.ndarray], chip: str = "sm_90a"
) -> None:
    """Compares instructions with functions; `table`: text -> (width of the result, function of a row's operands)."""
    got = evaluate([(text, width) for text, (width, _) in table.items()], inputs, chip)
    columns = [[int(v) for v in values] for values in inputs.values()]
    for (text, (width, oracle)), results in zip(table.items(), got, strict=True):
        mask = (1 << (1 if width == "p" else width)) - 1
        for row, result in zip(zip(*columns, strict=True), results, strict=True):
            want = oracle(*row)
            assert want & mask == int(result), (
                f"{text} of {[hex(v) for v in row]}: {int(result):#x}, expected {want & mask:#x}"
            )


def every_pair(values: Sequence[int], bits: int) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(np.array(values, WORD[bits]), np.array(values, WORD[bits]), indexing="ij")
    return a.ravel(), b.ravel()


def random_words(rng: np.random.Generator, count: int, bits: int) -> np.ndarray:
    return rng.integers(0, 1 << bits, count, np.uint64).astype(WORD[bits]) if bits < 64 else rng.integers(
        0, (1 << 64) - 1, count, np.uint64, endpoint=True
    )  # fmt: skip


def edges(bits: int) -> list[int]:
    """Values around zero, around the signed and unsigned limits, and around half the width."""
    top, half = 1 << (bits - 1), 1 << (bits // 2)
    around = [0, 1, 2, 3, 7, bits - 1, bits, half - 1, half, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1]
    return [*around, 0x5A5A5A5A5A5A5A5A & (2 * top - 1), 0xA5C3A5C3A5C3A5C3 & (2 * top - 1)]


def signed(value: int, bits: int) -> int:
    top = 1 << (bits - 1)
    return ((value & (2 * top - 1)) ^ top) - top


def rows(bits: int, third: int | None = None) -> dict[str, np.ndarray]:
    """Inputs a, b, c: every pair of edges, and random words; `third` is the width of c."""
    rng = np.random.default_rng(20261 + bits)
    a, b = every_pair(edges(bits), bits)
    a, b = (np.concatenate([x, random_words(rng, 128, bits)]) for x in (a, b))
    c = random_words(rng, len(a), third or bits)
    c[::3] = np.resize(np.array(edges(third or bits), c.dtype), len(c[::3]))
    return {"a": a, "b": b, "c": c}


def permute(a: int, b: int, selector: int) -> int:
    """prmt.b32: each nibble of the selector picks a byte of b:a, or its sign eight times."""
    pool = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    out = 0
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = pool[nibble & 7]
        out |= ((0xFF if byte & 0x80 else 0) if nibble & 8 else byte) << 8 * i
    return out
