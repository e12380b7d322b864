"""What a worker refuses: replaced functions, outputs of a wrong form, files that are not submissions."""

from __future__ import annotations

import builtins
import re
import sys
import time

import pytest
import torch

import eval.workers.guards
import eval.workers.worker as worker_module
from eval import supervisor
from eval.cases import parse_case
from eval.supervisor import Limits
from eval.timing import Core
from eval.workers.guards import FunctionWatch, extent, output_problem
from eval.workers.worker import Failure, Worker

CASE = parse_case("m: 8; n: 16; k: 64; l: 1; seed: 1111")
CPU = torch.device("cpu")


WATCHED = [
    *(
        (time, name)
        for name in ("perf_counter", "perf_counter_ns", "time", "time_ns", "monotonic", "monotonic_ns", "sleep")
    ),
    *((builtins, name) for name in ("sum", "min", "max", "len", "abs", "all", "any", "isinstance", "type", "open")),
    *(
        (torch, name)
        for name in ("equal", "empty", "full", "allclose", "isclose", "tensor", "rand", "randint", "where")
    ),
    *(
        (torch.Tensor, name)
        for name in ("clone", "copy_", "fill_", "cpu", "numpy", "sum", "data_ptr", "view", "contiguous")
    ),
    *((torch.cuda, name) for name in ("Event", "synchronize", "current_device", "is_available")),
    *((torch.cuda.Event, name) for name in ("record", "elapsed_time", "synchronize")),
    (torch.Tensor, "__eq__"),
    (supervisor, "judges_of"),
    (eval.workers.guards, "output_problem"),
    (FunctionWatch, "replaced"),
    (Core, "round"),
    (Worker, "round"),
    (worker_module, "Layout"),
]


@pytest.mark.parametrize(
    ("owner", "name"), WATCHED, ids=lambda x: x if isinstance(x, str) else getattr(x, "__name__", "")
)
def test_each_function_the_harness_rests_on_is_watched(owner, name):
    seen = FunctionWatch()._seen
    assert any(place.owner is owner and place.name == name for place in seen)


def test_the_reference_is_watched_too():
    import reference.nvfp4
    import reference.reference as checks

    watch = FunctionWatch()
    for owner, name in ((checks, "RTOL"), (checks, "ref_kernel"), (reference.nvfp4, "decode")):
        value = getattr(owner, name)
        try:
            setattr(owner, name, lambda *_: None)
            assert watch.replaced() == f"{owner.__name__}.{name}"
        finally:
            setattr(owner, name, value)
    assert watch.replaced() is None


def spans_of(begin, end):
    """A tensor of these bytes of a made-up memory, as its extent."""
    return (begin, end)


@pytest.mark.parametrize(
    ("shape", "strides", "count"),
    [
        ((2, 3), (3, 1), 6),
        ((2, 3), (10, 1), 13),
        ((2, 3), (1, 2), 6),
        ((1, 1), (7, 9), 1),
        ((4,), (0,), 1),
        ((2, 2, 2), (1, 2, 100), 104),
    ],
)
def test_an_extent_goes_from_the_first_byte_to_the_one_after_the_last(shape, strides, count):
    memory = torch.zeros(200, dtype=torch.int16)
    tensor = torch.as_strided(memory[3:], shape, strides)
    assert extent(tensor) == (memory.data_ptr() + 6, memory.data_ptr() + 6 + 2 * count)
    empty = memory[:0]
    assert extent(empty) == (empty.data_ptr(), empty.data_ptr())


@pytest.mark.parametrize("kind", ["input", "output of an earlier call"])
def test_an_output_may_touch_other_memory_and_not_reach_into_it(kind):
    c = torch.zeros(8, 4, 1, dtype=torch.float16)
    begin, end = extent(c)
    assert end - begin == 64
    for span, apart in (
        ((begin - 10, begin), True),
        ((begin - 10, begin + 1), False),
        ((begin, end), False),
        ((begin + 3, begin + 4), False),
        ((end - 1, end + 10), False),
        ((end, end + 10), True),
    ):
        other = [(0, 1), span]
        problem = output_problem(c, c, other, []) if kind == "input" else output_problem(c, c, [], other)
        article = "an" if kind == "input" else "the"
        assert problem == (None if apart else f"the output shares memory with {article} {kind}")


class Derived(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda c: None, "the output is a NoneType; expected a plain torch.Tensor"),
        (lambda c: c.as_subclass(Derived), "the output is a Derived; expected a plain torch.Tensor"),
        (lambda c: torch.nn.Parameter(c), "the output is a Parameter; expected a plain torch.Tensor"),
        (lambda c: c.to_sparse(), "the output has layout torch.sparse_coo; expected torch.strided"),
        (lambda c: c[:, :1], "the output has shape (2, 1, 2); expected (2, 2, 2)"),
        (lambda c: c.bfloat16(), "the output has dtype torch.bfloat16; expected torch.float16"),
        (lambda c: c.to("meta"), "the output is on meta; expected cpu"),
        (lambda c: torch._neg_view(c), "the output is a lazy view of other data; expected plain memory"),
        (
            lambda c: torch._efficientzerotensor(c.shape, dtype=c.dtype),
            "the output is a lazy view of other data; expected plain memory",
        ),
        (lambda c: c.contiguous(), "the output has strides (4, 2, 1); expected (2, 1, 4)"),
    ],
)
def test_each_rule_of_an_outputs_form_is_told_in_full(spoil, said):
    c = torch.zeros(2, 2, 2, dtype=torch.float16).permute(1, 2, 0)
    assert c.stride() == (2, 1, 4)
    assert output_problem(spoil(c.clone() if said.endswith("(2, 1, 4)") else c), c, [], []) == said


def test_a_lazy_conjugate_is_told():
    c = torch.zeros(2, dtype=torch.complex64)
    assert "lazy view" in output_problem(c.conj(), c, [], [])


def test_strides_of_size_one_dimensions_are_free():
    c = torch.zeros(2, 1, 1, dtype=torch.float16)
    assert (
        output_problem(torch.zeros(2, 1, 1, dtype=torch.float16).as_strided((2, 1, 1), (1, 50, 60)), c, [], []) is None
    )


# --- a submission as a process --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "^the submission has no function custom_kernel$"),
        ("custom_kernel = 3", "^the submission has no function custom_kernel$"),
        ("raise ValueError('x')", r"^import failed: ValueError: x \(submission\.py:1\)$"),
        ("def f(:", r"^import failed: SyntaxError"),
    ],
)
def test_a_file_that_is_no_submission_is_told(tmp_path, monkeypatch, text, reason):
    path = tmp_path / "submission.py"
    path.write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("submission", "task", "utils"):
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name))
    with pytest.raises(Failure, match=reason):
        worker_module._load(str(path), tmp_path, CASE.problem)


INSIDE = """
import ctypes, os, sys, torch
from task import input_t, output_t
import beside

assert input_t == tuple[torch.Tensor, ...] and output_t is torch.Tensor
assert sys.argv == ["submission.py"], sys.argv
assert os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] == "1"
assert not {"POPCORN_FD", "POPCORN_SEED"} & set(os.environ)
assert os.getsid(0) == os.getpid(), "a session of its own"
signal = ctypes.c_int()
assert ctypes.CDLL(None).prctl(2, ctypes.byref(signal)) == 0 and signal.value == 9  # ends with its parent
for i in range(9):
    print(f"line {i}")
os.write(2, b"and an error\\n")
raise ValueError("seen it all")
"""


def test_a_submission_runs_by_itself_with_what_the_leaderboard_gives_it(tmp_path, monkeypatch):
    (tmp_path / "beside.py").write_text("")
    path = tmp_path / "kernel.py"
    path.write_text(INSIDE)
    monkeypatch.setenv("POPCORN_SEED", "9")
    result = supervisor.run_test(path, CASE, CPU, Limits(answer_s=300.0))
    assert re.fullmatch(r"import failed: ValueError: seen it all \(kernel\.py:\d+\)", result.error), result.error
    assert [line for line in result.printed.splitlines() if line.startswith("line")] == [f"line {i}" for i in range(9)]
    assert "and an error" in result.printed


SLOW_TO_FLUSH = """
import sys, time

class Slow:
    def __init__(self, to):
        self.to, self.kept = to, ""
    def write(self, text):
        self.kept += text
    def flush(self):
        time.sleep(0.5)
        self.to.write(self.kept)
        self.to.flush()
        self.kept = ""

sys.stdout = Slow(sys.stdout)
print("all of it")
raise ValueError("told")
"""


def test_what_a_submission_printed_is_there_when_its_failure_is_told(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(SLOW_TO_FLUSH)
    result = supervisor.run_test(path, CASE, CPU, Limits(answer_s=300.0))
    assert result.error.startswith("import failed: ValueError: told")
    assert "all of it" in result.printed


def test_a_worker_that_ends_is_told_with_its_last_five_lines(tmp_path):
    path = tmp_path / "kernel"  # the name of a Python file may end in anything
    path.write_text("import os\nfor i in range(9):\n    print(f'line {i}', flush=True)\nos._exit(7)\n")
    result = supervisor.run_test(path, CASE, CPU, Limits(answer_s=300.0))
    lines = " / ".join(f"line {i}" for i in range(4, 9))
    assert result.error == f"the worker ended by itself: exit code 7; it printed: {lines}"
