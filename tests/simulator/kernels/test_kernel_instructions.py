"""Which instructions each kernel has of those that the sources write themselves, and how often, beside a record.

Results do not show a hint, a prefetch or an early start of the next launch that went missing; this does.  After a
change that is meant: `pytest -n 0 --record-outcomes` on this file, and read the record's difference.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.simulator.sim_kit import built

RECORD = Path(__file__).with_name("kernel_instructions.json")
PTX = {
    "hopper": "simulator/kernels/hopper/kernels.ptx",
    "blackwell": "simulator/kernels/blackwell/kernels.ptx",
    "geforce": "simulator/kernels/geforce/kernels.ptx",
}
ENTRY = re.compile(r"\.entry (\w+)\(")
INLINE = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.DOTALL)
MNEMONIC = re.compile(r"(?:^|[;{}])\s*(?:@!?%?\w+\s+)?([a-z][\w.:]*)(?=[\s;])", re.MULTILINE)
RELEASE = re.compile(r"Cuda compilation tools, release ([\d.]+)")


def instructions(text: str) -> dict[str, dict[str, int]]:
    """Kernel -> instruction of inline asm -> how often it stands in the text."""
    starts = [*ENTRY.finditer(text)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return {
        start[1]: dict(sorted(Counter(MNEMONIC.findall("".join(INLINE.findall(text, start.end(), end)))).items()))
        for start, end in zip(starts, ends, strict=True)
    }


@pytest.mark.parametrize("backend", PTX)
def test_each_kernel_has_the_instructions_that_were_recorded(backend, request):
    text = built(PTX[backend]).read_text()
    recorded = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    if request.config.getoption("record_outcomes"):
        recorded[backend] = {"release": RELEASE.search(text)[1], "kernels": instructions(text)}
        lines = (
            f"{json.dumps(name)}: {{\n"
            f'"release": {json.dumps(of["release"])},\n"kernels": {{\n'
            + ",\n".join(f"{json.dumps(kernel)}: {json.dumps(has)}" for kernel, has in of["kernels"].items())
            + "\n}}"
            for name, of in sorted(recorded.items())
        )
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    if RELEASE.search(text)[1] != recorded[backend]["release"]:
        pytest.skip(f"recorded of what CUDA {recorded[backend]['release']} makes: another release unrolls otherwise")
    found = instructions(text)
    assert list(found) == list(recorded[backend]["kernels"])
    for kernel, has in found.items():
        assert has == recorded[backend]["kernels"][kernel], kernel


def test_instructions_are_counted_by_kernel():
    inline = "// begin inline asm\n\t{}\n\t// end inline asm\n"
    text = ".visible .entry a()\n{\n" + inline.format("fence.x;") + inline.format("{ @p bar.sync 0; fence.x ; }")
    text += "mov.u32 %r1, 2;\n}\n.visible .entry b()\n{\n" + inline.format("@!%p1 wait.parity [%r1], 0;") + "}\n"
    assert instructions(text) == {"a": {"bar.sync": 1, "fence.x": 2}, "b": {"wait.parity": 1}}
