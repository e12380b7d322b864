"""Problems past a limit of a GPU backend are refused before a launch; the message names the argument and the limit."""

from __future__ import annotations

import json
import os
import re

import pytest

from simulator.python import forked
from simulator.tests.sim_kit import built, nvcc

UNSUPPORTED = 4
BACKENDS = ("hopper", "blackwell")
DIMENSION = (2**31 - 1) // 8
GRID = 65535

# Prints status and message of each call; the tensors have addresses without memory.
CALLS = """
import ctypes, json, os, sys
from tests.submission.cpu_kit import INPUTS, Args
library = ctypes.CDLL(sys.argv[1])
library.custom_kernel_message.restype = ctypes.c_char_p
answers = []
for backend, tile, problem in json.loads(sys.argv[2]):
    os.environ[f"NVFP4_{backend.upper()}_CONFIG"] = tile
    args = Args(ctypes.sizeof(Args), {"hopper": 2, "blackwell": 3}[backend], 0, 0, *problem)
    for name in INPUTS:
        setattr(args, name, 4096)
    args.c = 2**63
    answers.append([library.custom_kernel(ctypes.byref(args)), library.custom_kernel_message().decode()])
print(json.dumps(answers))
"""
# Backend, tile, problem; the argument that the message names, its value and its limit.
CASES = [
    ("hopper", "m64n128", (GRID * 64 + 1, 1, 64, 1), "m", GRID * 64 + 1, GRID * 64),
    ("hopper", "m128n64", (1, DIMENSION + 1, 64, 1), "n", DIMENSION + 1, DIMENSION),
    ("hopper", "m128n64", (1, 1, 2**28, 1), "k", 2**28, DIMENSION),
    ("hopper", "m128n64", (1, 1, 64, GRID + 1), "l", GRID + 1, GRID),
    ("hopper", "m128n64", (2**22, 1, 2**27, 2**12), "a", 2**60, 2**59 - 1),  # bytes of A
    ("blackwell", "m256n64", (DIMENSION + 1, 1, 64, 1), "m", DIMENSION + 1, DIMENSION),
    ("blackwell", "m256n64", (1, GRID * 64 + 1, 64, 1), "n", GRID * 64 + 1, GRID * 64),
    ("blackwell", "m256n64", (1, 1, 2**28, 1), "k", 2**28, DIMENSION),
    ("blackwell", "m256n64", (1, 1, 64, GRID + 1), "l", GRID + 1, GRID),
    # Scale tiles: ceil(rows / 128) * k / 64.
    ("blackwell", "m256n64", (2**21, 1, 2**20, 1), "sfa", 2**28, DIMENSION),
    ("blackwell", "m256n64", (1, 2**21, 2**20, 1), "sfb1", 2**28, DIMENSION),
]


def output(program, library, backend, calls=()):
    """What the program prints in a process of its own that uses the backend."""
    done = forked.run(program, [str(library), json.dumps(calls)], os.environ | {"NVFP4_BACKEND": backend})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def library():
    nvcc()
    return built("libcustom_kernel_sim.so")


@pytest.fixture(scope="module")
def answers(library):
    """Status and message of each case, from one process for each backend, whose chip the process simulates."""
    found = {}
    for backend in BACKENDS:
        mine = [case for case in CASES if case[0] == backend]
        found |= zip(mine, json.loads(output(CALLS, library, backend, [case[:3] for case in mine])), strict=True)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[3]}")
def test_a_problem_past_a_limit_is_refused(answers, case):
    backend, tile, _, argument, value, limit = case
    status, message = answers[case]
    assert status == UNSUPPORTED
    assert {argument, str(value), str(limit), backend, tile} <= set(re.findall(r"\w+", message)), message


# Prints the status of a call whose struct lacks the last member, and of one whose struct ends inside it.
SHORTER = """
import ctypes, sys
from tests.submission.cpu_kit import INPUTS, ROWS, Args, fenced, random_problem
import numpy as np
problem = random_problem(1, 1, 64)
library = ctypes.CDLL(sys.argv[1])
kept = [fenced(x) for x in [*problem.tensors(ROWS), np.zeros(1, dtype=np.uint16)]]
args = Args(Args.queue.offset, 0, -1, ROWS, 1, 1, 64, 1)
for name, tensor in zip((*INPUTS, "c"), kept, strict=True):
    setattr(args, name, tensor.ctypes.data)
print(library.custom_kernel(ctypes.byref(args)), bool(kept[-1].any()))
args.struct_bytes += 4
print(library.custom_kernel(ctypes.byref(args)))
"""


def test_a_struct_may_lack_the_queue_but_not_half_of_it(library):
    assert output(SHORTER, library, "hopper").split() == ["0", "True", "2"]


# Prints the message of a call on the host's tensors, whose addresses have no memory, with 2^20 rows of A.
MANY_ROWS = CALLS.replace("ctypes.sizeof(Args), {", "ctypes.sizeof(Args), 0 * {").replace(
    "0, 0, *problem", "-1, 0, *problem"
)


def test_a_size_that_the_simulator_does_not_take_is_named(library):
    ((status, message),) = json.loads(output(MANY_ROWS, library, "hopper", [["hopper", "", (2**20, 1, 64, 1)]]))
    assert status == UNSUPPORTED and message.startswith("m is 1048576;") and "2^20" in message


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_rows_of_the_host_are_an_answer_as_on_a_card(library, backend):
    ((status, message),) = json.loads(output(MANY_ROWS, library, backend, [[backend, "", (0, 64, 64, 1)]]))
    assert status == 0, message
