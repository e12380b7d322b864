"""printf on the device: every conversion against C's own, with arguments where vprintf's buffer has them."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

from simulator.tests.sim_kit import Sim, body

STRING = "words"
CASES = {  # format: (C type, value) for each argument, and what is printed
    "%d": ([("i", -7)], "-7"),
    "%i|%u": ([("i", -1), ("I", 2**32 - 1)], "-1|4294967295"),
    "%x %X %o": ([("I", 0xBEEF), ("I", 0xBEEF), ("I", 8)], "beef BEEF 10"),
    "%c%c": ([("i", 72), ("i", 105)], "Hi"),
    "%5d|%-5d|%05d|%+d": ([("i", 42)] * 4, "   42|42   |00042|+42"),
    "%ld %lld %lu %llx": ([("q", -(2**40)), ("q", 2**62), ("Q", 2**64 - 1), ("Q", 2**63)],
                          "-1099511627776 4611686018427387904 18446744073709551615 8000000000000000"),
    "%d %ld %d": ([("i", 1), ("q", 2), ("i", 3)], "1 2 3"),  # the long one is aligned to its size
    "%d %f": ([("i", 1), ("d", 2.5)], "1 2.500000"),
    "%5.2f|%e|%g|%.0f": ([("d", 3.14159), ("d", 12345.678), ("d", 0.0001), ("d", 2.5)], " 3.14|1.234568e+04|0.0001|2"),
    "%s!": ([("s", STRING)], "words!"),
    "%d%%": ([("i", 50)], "50%"),
    "%zu": ([("Q", 2**33)], "8589934592"),
    "%p|%12p": ([("Q", 0x7F00), ("Q", 0xABC)], "0x7f00|       0xabc"),
    "plain": ([], "plain"),
    f"%{'0' * 44}3d|": ([("i", 5)], "005|"),  # the longest conversion
}  # fmt: skip


@pytest.mark.parametrize("form", CASES)
def test_conversions(form, capfd):
    arguments, want = CASES[form]
    text = (form + "\n").encode() + b"\0"
    stores, offset = [], 0
    for kind, value in arguments:
        size = 8 if kind in "qQds" else 4
        offset = -(-offset // size) * size
        if kind == "s":
            stores.append(f"mov.u64 %rd5, word; cvta.global.u64 %rd5, %rd5; st.local.u64 [%rd1+{offset}], %rd5;")
        else:
            bits = int.from_bytes(struct.pack("<" + kind, value), "little")
            register = "%rd5" if size == 8 else "%r5"
            stores.append(f"mov.b{8 * size} {register}, {bits}; st.local.b{8 * size} [%rd1+{offset}], {register};")
        offset += size
    array = lambda data: ", ".join(str(b) for b in data)  # noqa: E731
    sim = Sim(
        body(
            "mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1; mov.u64 %rd3, text; cvta.global.u64 %rd3, %rd3;",
            *stores,
            "{ .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %rd3; st.param.b64 [b], %rd2;"
            " call.uni (c), vprintf, (a, b); ld.param.b32 %r6, [c]; ld.param.u64 %rd9, [p];"
            " st.global.u32 [%rd9], %r6; }",
            registers=".local .align 8 .b8 depot[64];",
            before=".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n"
            f".global .align 1 .b8 text[{len(text)}] = {{{array(text)}}};\n"
            f".global .align 1 .b8 word[{len(STRING) + 1}] = {{{array(STRING.encode())}, 0}};\n",
        )
    )
    out = sim.buffer(np.full(1, 99, np.uint32))
    assert sim.launch("k", out, block=1) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == want + "\n"
