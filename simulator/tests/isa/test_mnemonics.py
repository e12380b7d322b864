"""Every mnemonic that the simulator takes has a test of what it computes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache

from simulator.tests.isa.executed_mnemonics import MARK
from simulator.tests.sim_kit import ROOT

TESTS = "simulator/tests/"
VALUES = "isa/values"
# Mnemonics whose effect is no function of a lane's operands: the file that checks it.  tcgen05: batch tests of its
# arithmetic (tensorcore/) and kernels in PTX (kernels/test_operand_in_tensor_memory.py) compare its results.
ELSEWHERE = {
    "barrier": "isa/test_barriers.py",
    "clusterlaunchcontrol": "isa/test_launch_control.py",
    "exit": "isa/test_barriers.py",
    "getctarank": "isa/test_addresses.py",
    "griddepcontrol": "isa/test_launch_control.py",
    "isspacep": "isa/test_addresses.py",
    "ldmatrix": "isa/test_block_scaled_mma.py",
    "mapa": "isa/test_addresses.py",
    "mbarrier": "asynchronous/test_mbarriers.py",
    "mma": "isa/test_sparse_mma.py",
    "multimem": "isa/test_unmodelled_instructions.py",
    "setmaxnreg": "isa/test_control.py",
    "stmatrix": "isa/test_block_scaled_mma.py",
    "tcgen05": "isa/test_rare_findings.py",
    "tensormap": "asynchronous/test_tensor_maps.py",
    "trap": "isa/test_control.py",
    "wgmma": "isa/test_sparse_wgmma.py",
}


def mnemonics() -> set[str]:
    """The mnemonics of the simulator's table of opcodes."""
    text = (ROOT / "simulator/isa/opcodes.h").read_text()
    return set(re.findall(r"^    X\((\w+), \w+, \w+\)", text, re.MULTILINE))


@cache
def executed() -> dict[str, set[str]]:
    """Mnemonics by test file, without running the kernels."""
    paths = [TESTS + name for name in (VALUES, *sorted(set(ELSEWHERE.values())))]
    plugin = ["-p", "no:cacheprovider", "-p", "simulator.tests.isa.executed_mnemonics"]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *plugin, *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = re.search(f"^{MARK}(.*)$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return {file.removeprefix(TESTS): set(names) for file, names in json.loads(found[1]).items()}


def test_each_mnemonic_has_a_value_test():
    known, values = mnemonics(), set()
    assert len(known) > 90
    for file, names in executed().items():
        values |= names if file.startswith(VALUES) else set()
    missing = sorted(known - values - set(ELSEWHERE))
    assert not missing, f"no test in {TESTS}{VALUES} executes {', '.join(missing)}"


def test_the_named_files_execute_the_other_mnemonics():
    missing = [f"{name} in {file}" for name, file in ELSEWHERE.items() if name not in executed().get(file, set())]
    assert not missing and set(ELSEWHERE) <= mnemonics(), missing
