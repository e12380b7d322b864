"""The card-only parts of benches and checks, with stand-ins for CUDA that record their calls."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from reference.reference import generate_input
from scripts.bench import check_gpu, commits, compare, host, sweep
from simulator.calibration.benchmarks import __main__ as micro
from submission import custom_kernel

# --- a round of calls -------------------------------------------------------------------------------------------


def test_a_round_on_a_card_is_timed_between_events_behind_a_flush(monkeypatch):
    done = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing
            self.name = f"event {sum(isinstance(word, Event) for word in done)}"
            done.append(self)

        def record(self):
            done.append(f"record {self.name}")

        def synchronize(self):
            done.append(f"wait for {self.name}")

        def elapsed_time(self, other):
            assert (self.name, other.name) == ("event 0", "event 1")
            return 0.6  # ms

    def empty(count, dtype, device):
        assert (count, dtype, device) == (compare.FLUSH_BYTES, torch.uint8, "cuda")
        return SimpleNamespace(fill_=lambda value: done.append(f"fill {value}"))

    class Clock:
        def __init__(self, device):
            assert device == torch.device("cuda", 3)

        def read_mhz(self):
            done.append("clock")
            return 1755

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: done.append("wait for all"))
    monkeypatch.setattr(compare.chip, "Clock", Clock)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", empty)
        timer = compare.Timer("cuda")
    assert timer.last_mhz is None
    del done[:]
    assert timer.round_us(lambda i: done.append(f"call {i}"), 3) == pytest.approx(200.0)
    fills = [f"fill {i}" for i in range(compare.FLUSH_FILLS)]
    calls = [f"call {i}" for i in range(3)]
    waits = ["record event 1", "wait for event 0", "clock", "wait for all"]
    assert done == [*fills, "record event 0", *calls, *waits] and timer.last_mhz == 1755


# --- the check on a card ----------------------------------------------------------------------------------------


def test_few_rows_are_asked_at_the_sizes_of_models(monkeypatch):
    asked = []

    def poisoned(m, n, k, batches, seed=0, full=False):
        asked.append((m, n, k))
        assert (batches, seed, full) == (1, m, True)
        return (m, n, k)

    def judged(what, data, check):
        assert check is check_gpu.check_against_oracle
        yield what, data == asked[-1], ""

    monkeypatch.setattr(check_gpu, "poisoned", poisoned)
    monkeypatch.setattr(check_gpu, "judged", judged)
    found = list(check_gpu.few_rows())
    rows = (1, 7, 8, 9, 16, 31, 32, 33, 64)
    weights = ((4096, 7168), (3072, 4096), (14336, 4096), (2048, 7168), (4000, 4160))
    assert asked == [(m, n, k) for m in rows for n, k in weights]
    assert found == [(f"few rows {m}x{n}x{k}", True, "") for m, n, k in asked]


@pytest.mark.parametrize("right", [True, False])
def test_a_graph_is_replayed_into_an_output_that_was_spoilt(monkeypatch, right):
    data = generate_input(16, 64, 128, 1, 3, device="cpu")
    queues = []

    class Graph:
        """Runs what was captured; the wrong one does nothing."""

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def replay(self):
            if right:
                custom_kernel(data)

    def call(data, queue=None):
        queues.append(queue)
        return custom_kernel(data)

    monkeypatch.setattr(check_gpu, "poisoned", lambda *shape: assert_shape(shape, (256, 3072, 4096, 1)) or data)
    monkeypatch.setattr(check_gpu, "custom_kernel", call)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph: graph)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=77))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    found = list(check_gpu.capture())
    assert found == [(f"graph replay {i}", right, "differs from the call outside") for i in range(3)]
    assert queues == [None, 77]


def assert_shape(shape, wanted):
    assert shape == wanted


def test_bad_calls_are_refused_and_the_next_one_works(monkeypatch):
    data = generate_input(16, 64, 128, 1, 3, device="cpu")
    answers = iter([ValueError("on two"), None, TypeError("of bytes"), ValueError("tensors on CUDA"), None])
    seen = []

    def call(data):
        import os

        seen.append(os.environ.get("NVFP4_BACKEND"))
        answer = next(answers)
        if answer is not None:
            raise answer
        return "output"

    monkeypatch.delenv("NVFP4_BACKEND", raising=False)
    monkeypatch.setattr(check_gpu, "poisoned", lambda *shape: assert_shape(shape, (128, 128, 256, 1)) or data)
    monkeypatch.setattr(check_gpu, "custom_kernel", call)
    monkeypatch.setattr(check_gpu, "check_implementation", lambda of, output: (of is data and output == "output", "so"))
    assert list(check_gpu.errors()) == [
        ("mixed devices", True, "on two"),
        ("host inputs", False, "was accepted"),
        ("wrong dtype", True, "of bytes"),
        ("cpu backend on CUDA tensors", True, "tensors on CUDA"),
        ("works afterwards", True, "so"),
    ]
    assert seen == [None, None, None, "cpu", None]
    answers = iter([ValueError("a"), ValueError("b"), TypeError("c"), ValueError("of the host"), None])
    assert [(what, ok) for what, ok, _ in check_gpu.errors()][3] == ("cpu backend on CUDA tensors", False)
    answers = iter([ValueError("a"), ValueError("b"), TypeError("c"), None, None])
    assert list(check_gpu.errors())[3] == ("cpu backend on CUDA tensors", False, "was accepted")
    answers = iter([ValueError("a"), RuntimeError("the device is lost")])
    with pytest.raises(RuntimeError, match="the device is lost"):
        list(check_gpu.errors())


# --- programs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def card(monkeypatch, tmp_path):
    """nvidia-smi and build/micro as shell scripts; runs the program with words."""
    tool, program = tmp_path / "bin/nvidia-smi", tmp_path / "micro"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "$@" >&2\necho " A card, 580.1 ,1980 MHz, 3201 MHz"\n')
    rows = [
        {"name": "latency", "parameters": {"bytes": 16, "ctas": 2}, "value": 30.5, "unit": "cycles"},
        {"name": "rate", "parameters": {}, "value": 7, "unit": "B a cycle"},
        {"name": "rate", "parameters": {}, "value": 8, "unit": "B a cycle"},
    ]
    lines = "\n".join(map(json.dumps, rows))
    program.write_text(
        f"#!/bin/sh\n[ \"$1\" != bad ] || {{ echo 'no such group' >&2; exit 5; }}\ncat <<'E'\n{lines}\nE\n"
    )
    for path in (tool, program):
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/bin:/usr/bin")
    monkeypatch.setattr(micro, "PROGRAM", program)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["micro", *words, "--json", str(tmp_path / "x.json")])
        return micro.main()

    run.json = tmp_path / "x.json"
    return run


def test_the_microbenchmarks_rows_are_printed_and_kept_once(card, capsys):
    assert card("latency") == 0
    assert capsys.readouterr().out == (
        "latency                                    30.5 cycles  bytes 16, ctas 2\n"
        "rate                                          7 B a cycle  \n"
        "rate                                          8 B a cycle  \n"
        f"3 rows of an A card, driver 580.1: {card.json}\n"
    )
    text = card.json.read_text()
    report = json.loads(text)
    assert report.pop("sources_sha256") == micro.sources_digest()
    assert {name: value for name, value in report.items() if name != "rows"} == {
        "chip": "A card",
        "driver": "580.1",
        "max_sm_clock": "1980 MHz",
        "memory_clock": "3201 MHz",
    }
    assert [(row["name"], row["value"]) for row in report["rows"]] == [("latency", 30.5), ("rate", 7)]
    assert text.endswith("}\n]}\n") and len(text.splitlines()) == 5


def test_a_microbenchmark_that_fails_says_why(card, capsys):
    assert card("bad") == 1 and not card.json.exists()
    assert capsys.readouterr().err == "micro: the program ended with 5: no such group\n"


def test_commits_end_with_the_words_of_what_failed(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(commits, "FOLDER", tmp_path / "none")
    with pytest.raises(SystemExit, match=r"^commits: nothing is fetched; run `python -m scripts.bench.commits fetch` "):
        commits.time(False, [])
    monkeypatch.setattr(commits, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"^commits: git rev-parse HEAD: fatal: "):
        commits.git("rev-parse", "HEAD")

    def late(*_, timeout, **__):
        assert timeout == commits.BUILD_SECONDS
        raise subprocess.TimeoutExpired("make", timeout)

    with monkeypatch.context() as patch:
        patch.setattr(commits.subprocess, "run", late)
        assert commits.build(tmp_path / "abcdef0") == "abcdef0: not built within 480 s"
    asked = []
    monkeypatch.setattr(commits, "fetch", lambda names: asked.append(names))
    monkeypatch.setattr(commits, "time", lambda ledger, words: asked.append((ledger, words)) or 7)
    monkeypatch.setattr(commits, "newest", lambda: "abcdef0123")
    monkeypatch.setattr(commits, "ledger_variants", lambda head: [f"{head}/auto", "1234567/m64", f"{head}/x", "own"])
    for words, status in ((["fetch", "a", "b"], 0), (["fetch", "--ledger"], 0), (["time", "--ledger", "--x"], 7)):
        monkeypatch.setattr(sys, "argv", ["commits", *words])
        assert commits.main() == status
    assert asked == [["a", "b"], ["abcdef0", "1234567"], (True, ["--x"])]


def test_the_host_bench_of_groups_keeps_what_a_call_packed(monkeypatch):
    """The bundle's shim is timed with packing in Python, so that the same struct can be passed again."""
    costs = {"shim": 5.0, "package": 6.0, "library": 4.0, "ctypes": 1.0, "packing": 9.0}
    called = []

    def sample_us(call, argument):
        called.append((call, argument))
        call(argument)
        return costs[order[(len(called) - 1) % len(order)]]

    native = host.group_submission._call_python is not None
    order = ["shim", "package", "library", "ctypes", *(["packing"] if native else [])]
    monkeypatch.setattr(host, "sample_us", sample_us)
    found = host.measure(2, "group_gemm")
    more = {"packing_us": 6.0} if native else {}
    assert found == {"work_us": 3.0, "ctypes_us": 1.0, "shim_us": 2.0, "package_us": 3.0, **more}
    assert len(called) == 2 * len(order) and called[2][1] is called[3][1]
    assert called[1][0] is host.group_submission.custom_kernel
    if native:
        assert called[4][0].__globals__["_call_python"] is None
        assert called[0][0].__globals__ is not called[4][0].__globals__


def test_a_sweep_without_a_device_or_a_known_chip(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert sweep.main(["--device", "cuda"]) == 1
    assert capsys.readouterr().err == "sweep: no CUDA device\n"
    assert sweep.floors_us((1, 64, 64), "an unknown chip") is None
