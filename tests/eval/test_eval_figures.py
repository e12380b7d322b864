"""The harness's figures by hand: statistics, floors, case files, the protocol, JSON and the report."""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import json
import os
import random
import statistics
import sys
from pathlib import Path

import pytest
import torch

from eval import chip, command, protocol, report, stats
from eval.cases import CasesError, mixed_seed, parse_case, read_cases
from eval.protocol import DescriptorError, Protocol, hidden_from_children, secret_seed
from eval.stats import Ratio, Summary, geomean_ratio_interval, ratio_interval, relative_spread, summarise, verdict
from eval.supervisor import Limits, Result

SPEC = "m: 256; n: 4096; k: 7168; l: 1; seed: 1111"
CASE = parse_case(SPEC)
CPU = torch.device("cpu")


# --- statistics ---------------------------------------------------------------------------------------


def test_a_summary_by_hand():
    figures = summarise([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0, 5.0])
    assert figures._fields == ("runs", "mean", "std", "err", "best", "worst")
    assert figures == pytest.approx((9, 5.0, 2.0, 2 / 3, 2.0, 9.0))
    assert summarise([3.0, 5.0]) == pytest.approx((2, 4.0, 2**0.5, 1.0, 3.0, 5.0))
    assert summarise([7.0]) == Summary(1, 7.0, 0.0, 0.0, 7.0, 7.0)


@pytest.mark.parametrize(
    ("samples", "spread"),
    [
        ([5.0], 0.0),
        ([10.0, 20.0], 5 / 2 / 15),  # quartiles 12.5 and 17.5
        ([4.0, 1.0, 3.0, 2.0, 5.0], 2 / 2 / 3),
        ([1.0, 2.0, 3.0, 10.0], (4.75 - 1.75) / 2 / 2.5),
        ([100.0, 104.0, 101.0], 1.0 / 101),  # 100.5 and 102.5
    ],
)
def test_the_spread_is_half_the_range_of_quartiles_over_the_median(samples, spread):
    assert relative_spread(samples) == pytest.approx(spread)


class Counting:
    """Resampling that draws sample number i each time in round i."""

    def __init__(self, seed):
        self.seed = seed
        self.calls = []
        Counting.last = self

    def choices(self, population, k):
        self.calls.append((len(population), k))
        return [min(len(self.calls) - 1, len(population) - 1)]


def test_an_interval_leaves_out_a_fortieth_of_2000_rounds_at_each_end(monkeypatch):
    monkeypatch.setattr(stats.random, "Random", Counting)
    numbers = [float(i) for i in range(1, 2001)]
    ratio = ratio_interval(numbers, [2.0] * 2000, seed=9)
    assert ratio == (1000.5 / 2, 51 / 2, 1950 / 2)
    assert Counting.last.seed == 9
    assert Counting.last.calls == [(2000, 2000)] * 2000, "pairs are drawn once a round"
    assert ratio_interval(numbers, [1.0] * 2000) and Counting.last.seed == 0


def test_samples_of_unequal_number_are_drawn_apart(monkeypatch):
    monkeypatch.setattr(stats.random, "Random", Counting)
    ratio_interval([1.0, 2.0, 3.0], [1.0, 2.0])
    assert Counting.last.calls == [(3, 3), (2, 2)] * 2000


def test_the_geometric_means_interval_by_hand(monkeypatch):
    monkeypatch.setattr(stats.random, "Random", Counting)
    ones = [1.0] * 4000
    numbers = [float(i) ** 2 for i in range(1, 4001)]
    # Two shapes: the second one's draws come in between, so a round takes two numbers on.
    ratio = geomean_ratio_interval([(numbers, ones), (ones, ones)], seed=4)
    assert Counting.last.seed == 4
    assert Counting.last.calls == [(4000, 4000)] * 4000
    assert (ratio.low, ratio.high) == pytest.approx((101.0, 3899.0))
    assert ratio.ratio == pytest.approx(((2000**2 + 2001**2) / 2) ** 0.5)
    geomean_ratio_interval([([1.0, 2.0, 3.0], [1.0, 2.0])])
    assert Counting.last.calls == [(3, 3), (2, 2)] * 2000


def test_shared_drift_cancels_in_pairs_and_not_apart():
    drift = [1 + i / 40 for i in range(40)]
    paired = ratio_interval(drift, [2 * x for x in drift])
    assert paired == (0.5, 0.5, 0.5)
    apart = ratio_interval(drift, [2 * x for x in drift[:-1]])
    assert apart.high - apart.low > 0.1
    assert geomean_ratio_interval([(drift, [2 * x for x in drift])]) == pytest.approx((0.5, 0.5, 0.5))


def test_an_interval_holds_the_truth_about_as_often_as_it_says():
    source = random.Random(3)
    held = 0
    for trial in range(40):
        a, b = ([source.gauss(100, 2) for _ in range(25)] for _ in range(2))
        ratio = ratio_interval(a, b, seed=trial)
        held += ratio.low <= 1 <= ratio.high
    assert held >= 33


@pytest.mark.parametrize(
    ("low", "high", "noise", "said"),
    [
        (0.8, 0.99, 0.0, "faster"),
        (0.8, 1.0, 0.0, "no difference"),
        (1.0, 1.2, 0.0, "no difference"),
        (1.01, 1.2, 0.0, "slower"),
        (0.9, 1.1, 0.0, "no difference"),
        (0.5, 0.74, 0.25, "faster"),
        (0.5, 0.75, 0.25, "no difference"),
        (1.25, 1.5, 0.25, "no difference"),
        (1.26, 1.5, 0.25, "slower"),
    ],
)
def test_a_verdict_needs_an_interval_beyond_the_noise(low, high, noise, said):
    assert verdict(Ratio((low + high) / 2, low, high), noise) == said


# --- chips --------------------------------------------------------------------------------------------

SHAPE, BATCHES = (256, 4096, 7168, 1), (64, 128, 256, 3)
H100, H200, B200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA B200"


def test_work_by_hand():
    # 2 operations a product, of two matrices; A, B1, B2 at 4 bits and a byte for 16, C at 16 bits.
    assert chip.work((2, 3, 64, 1)) == (4 * 2 * 3 * 64, 2 * 36 + 2 * 3 * 36 + 2 * 2 * 3)
    assert chip.work(BATCHES) == (3 * 4 * 64 * 128 * 256, 3 * ((64 + 256) * (128 + 16) + 2 * 64 * 128))


THIN = (1, 100_000, 64, 1)  # bound by memory
THIN_BYTES = (1 + 200_000) * 36 + 200_000
FLOPS = 4 * 256 * 4096 * 7168


@pytest.mark.parametrize(
    ("name", "flops", "bandwidth"), [(B200, 10e15, 8.0e12), (H200, 989.5e12, 4.8e12), (H100, 989.5e12, 3.35e12)]
)
def test_floors_by_hand(name, flops, bandwidth):
    assert chip.speed_of_light(THIN, name).us == pytest.approx(THIN_BYTES / bandwidth * 1e6)
    assert chip.impossible_us(THIN, name, 0) == pytest.approx(THIN_BYTES / bandwidth / 1.1 * 1e6)
    large = (4096, 4096, 16384, 2)
    assert chip.speed_of_light(large, name).us == pytest.approx(8 * 4096 * 4096 * 16384 / flops * 1e6)
    assert chip.impossible_us(SHAPE, name, 64) == pytest.approx(
        max(FLOPS / flops, chip.work(SHAPE)[1] / bandwidth) / 1.1 * 1e6
    )
    assert name.split()[1] in chip.speed_of_light(THIN, name).basis


def test_published_figures_are_the_b200s_alone():
    assert chip.speed_of_light(SHAPE, B200) == (4.708, "published with the task")
    assert chip.B200_SPEED_OF_LIGHT_US == {
        (256, 4096, 7168, 1): 4.708,
        (512, 4096, 7168, 1): 8.714,
        (256, 3072, 4096, 1): 2.125,
        (512, 3072, 7168, 1): 6.535,
    }
    assert chip.speed_of_light(SHAPE, H200).us == pytest.approx(FLOPS / 989.5e12 * 1e6)
    assert chip.speed_of_light((256, 4096, 7168, 2), B200).basis != "published with the task"


def test_no_time_of_a_cpu_is_impossible_unless_it_beats_every_core_of_any():
    # 1024 multiply-adds a clock at 6 GHz.
    assert chip.impossible_us(SHAPE, "some CPU", 2) == pytest.approx(256 * 4096 * 7168 * 2 / (2 * 1024 * 6e9) * 1e6)
    assert chip.impossible_us(SHAPE, "some CPU", 8) == pytest.approx(chip.impossible_us(SHAPE, "some CPU", 2) / 4)
    assert chip.impossible_us(SHAPE, "some GPU", 0) == 0.0


@pytest.mark.parametrize(("name", "found"), [(B200, "B200"), (H200, "H200"), (H100, "H100"), ("NVIDIA A100", None)])
def test_a_chip_is_known_by_its_name(name, found):
    peak = chip.peak(name)
    assert (peak and peak.name) == found


def test_a_cpus_name_comes_with_its_processors(monkeypatch, tmp_path):
    lines = "processor : 0\nmodel name\t: Some CPU: 9000 \nmodel name\t: Another\n"
    (tmp_path / "cpuinfo").write_text(lines)
    monkeypatch.setattr(chip, "Path", lambda name: tmp_path / Path(name).name)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 2, 5})
    assert chip.name(CPU) == "Some CPU: 9000, 3 processors"
    (tmp_path / "cpuinfo").write_text("processor : 0\n")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert chip.name(CPU) == "unnamed CPU, 7 processors"
    (tmp_path / "cpuinfo").unlink()
    assert chip.name(CPU) == "unnamed CPU, 7 processors"


def test_free_memory_is_what_can_be_had_now(monkeypatch):
    pages = {"SC_AVPHYS_PAGES": 1000, "SC_PHYS_PAGES": 5000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert chip.free_memory(CPU) == 4096 * 1000
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (123, 456))
    assert chip.free_memory(torch.device("cuda", 0)) == 123


class Nvml:
    """A library of management that knows one device."""

    def __init__(self, status=0, known=b"GPU-1-2-3", readable=0):
        self.status, self.known, self.readable = status, known, readable
        self.asked = []

    def nvmlInit_v2(self):
        return self.status

    def nvmlDeviceGetHandleByUUID(self, uuid, handle):
        self.asked.append(uuid)
        handle._obj.value = 77
        return 0 if uuid == self.known else 6

    def nvmlDeviceGetClockInfo(self, handle, kind, mhz):
        self.asked.append((handle.value, kind))
        mhz._obj.value = 1830
        return self.readable


def clock_of(monkeypatch, nvml, device="cuda"):
    def load(name):
        assert name == "libnvidia-ml.so.1"
        if isinstance(nvml, Exception):
            raise nvml
        return nvml

    monkeypatch.setattr(chip.ctypes, "CDLL", load)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: argparse.Namespace(uuid="1-2-3"))
    return chip.Clock(torch.device(device, 0) if device == "cuda" else CPU)


def test_the_sm_clock_is_read_by_the_devices_identity(monkeypatch):
    nvml = Nvml()
    assert clock_of(monkeypatch, nvml).read_mhz() == 1830
    assert nvml.asked == [b"GPU-1-2-3", (77, 1)]  # NVML_CLOCK_SM


@pytest.mark.parametrize("nvml", [Nvml(status=1), Nvml(known=b"GPU-9"), Nvml(readable=3), OSError("none")])
def test_a_clock_that_cannot_be_read_is_none(monkeypatch, nvml):
    assert clock_of(monkeypatch, nvml).read_mhz() is None


def test_a_cpu_has_no_sm_clock(monkeypatch):
    assert clock_of(monkeypatch, Nvml(), "cpu").read_mhz() is None


# --- case files ---------------------------------------------------------------------------------------

REST = "; n: 2; k: 64; l: 4; seed: 5"


@pytest.mark.parametrize(
    "line", ["m: 3" + REST, "  m :3" + REST + "; ", "m: +3" + REST + ";;", "seed: 5; l:4;k: 64;n: 2;m:3"]
)
def test_a_spec_may_be_spaced_and_ordered_freely(line):
    case = parse_case(line)
    assert case == (3, 2, 64, 4, 5, line.strip())
    assert case.shape == (3, 2, 64, 4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("m 1" + REST, "'m 1' is not `name: integer`"),
        ("m: 1.5" + REST, "'m: 1.5' is not `name: integer`"),
        ("m: 1 2" + REST, "'m: 1 2' is not `name: integer`"),
        ("m: --1" + REST, "'m: --1' is not `name: integer`"),
        ("M: 1" + REST, "'M' is unknown; expected ('m', 'n', 'k', 'l', 'seed')"),
        ("m: 1; l: 1" + REST, "'l' is repeated; expected ('m', 'n', 'k', 'l', 'seed')"),
        ("m: 0" + REST, "m is 0; expected at least 1"),
        ("m: 1; n: 0; k: 64; l: 1; seed: 0", "n is 0; expected at least 1"),
        ("m: 1; n: 1; k: 0; l: 1; seed: 0", "k is 0; expected at least 1"),
        ("m: 1; n: 1; k: 64; l: -1; seed: 0", "l is -1; expected at least 1"),
        ("m: 1; n: 1; k: 32; l: 1; seed: 0", "k is 32; expected a multiple of 64"),
        ("m: 1; n: 1; k: 64; l: 1; seed: -1", "seed is -1; expected at least 0"),
        ("m: 1; k: 64; l: 1", "no value for n, seed"),
        ("", "no value for m, n, k, l, seed"),
    ],
)
def test_what_is_wrong_with_a_spec_is_told_in_full(line, message):
    with pytest.raises(CasesError) as error:
        parse_case(line)
    assert str(error.value) == message


def test_ones_and_a_seed_of_zero_are_enough():
    assert parse_case("m: 1; n: 1; k: 64; l: 1; seed: 0")[:5] == (1, 1, 64, 1, 0)


def test_a_secret_seed_reaches_every_case_of_a_file(tmp_path):
    path = tmp_path / "cases.txt"
    path.write_text(f"\n   \n{SPEC}  \n\n m: 1; n: 1; k: 64; l: 1; seed: 7")
    assert [case.seed for case in read_cases(path)] == [1111, 7]
    assert [case.seed for case in read_cases(str(path), 4)] == [1111 + 1115 * 1116 // 2, 7 + 11 * 12 // 2]
    assert [case.spec for case in read_cases(path, 4)] == [SPEC, "m: 1; n: 1; k: 64; l: 1; seed: 7"]
    assert isinstance(mixed_seed(2**40, 2**40 + 1), int)
    assert mixed_seed(2**40, 2**40 + 1) == 2**40 + (2**41 + 1) * (2**41 + 2) // 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n\n", "{path} holds no case"),
        (b"", "{path} holds no case"),
        (SPEC.encode() + b"\n\nm: 1\n", "{path}:3: no value for n, k, l, seed"),
        (b"m: x", "{path}:1: 'm: x' is not `name: integer`"),
        (b"\xff\xfe", "cannot read {path}: "),
        (None, "cannot read {path}: "),
    ],
)
def test_a_bad_file_is_told_with_its_line(tmp_path, content, message):
    path = tmp_path / "cases.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CasesError) as error:
        read_cases(path)
    wanted = message.format(path=path)
    assert str(error.value).startswith(wanted) if wanted.endswith(": ") else str(error.value) == wanted


# --- the protocol -------------------------------------------------------------------------------------


def test_exit_codes_are_the_leaderboards():
    assert (protocol.EXIT_OK, protocol.EXIT_USAGE, protocol.EXIT_FAILED, protocol.EXIT_BAD_CASES) == (0, 2, 112, 113)
    assert protocol.EXIT_NO_DESCRIPTOR == 111


def test_a_line_is_there_as_soon_as_it_is_logged_and_is_one_line():
    read, write = os.pipe()
    with Protocol(str(write)) as out, os.fdopen(read, "rb", buffering=0) as pipe:
        out.log("first", 1)
        assert pipe.read(100) == b"first: 1\n"
        out.log("text", "one\ntwo\r\nthree\n\u00e9")
        assert pipe.read(100).decode() == "text: one / two / three / \u00e9\n"
        out.log("empty", "")
        assert pipe.read(100) == b"empty: \n"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(write)


@pytest.mark.parametrize("descriptor", ["", "abc", "999", "-1", "1.5"])
def test_what_is_no_descriptor_is_told(descriptor):
    with pytest.raises(DescriptorError, match=f"^POPCORN_FD is '{descriptor}': "):
        Protocol(descriptor)


def test_a_descriptor_that_cannot_be_written_to_is_told():
    read, write = os.pipe()
    try:
        Protocol(str(write))._file.close()
        with pytest.raises(DescriptorError):
            Protocol("9" * 9)
    finally:
        os.close(read)


@pytest.mark.parametrize(("text", "seed"), [(None, None), ("", None), ("0", 0), ("-3", -3), ("12345", 12345)])
def test_the_secret_seed_is_an_integer_if_it_is_set(monkeypatch, text, seed):
    monkeypatch.delenv("POPCORN_SEED", raising=False)
    if text is not None:
        monkeypatch.setenv("POPCORN_SEED", text)
    assert secret_seed() == seed


def test_children_see_neither_the_descriptor_nor_the_secret(monkeypatch):
    monkeypatch.setenv("POPCORN_FD", "5")
    monkeypatch.setenv("POPCORN_SEED", "6")
    monkeypatch.setenv("POPCORN_GPUS", "B200")
    with contextlib.suppress(KeyError), hidden_from_children():
        assert "POPCORN_FD" not in os.environ and "POPCORN_SEED" not in os.environ
        assert os.environ["POPCORN_GPUS"] == "B200"
        raise KeyError
    assert (os.environ["POPCORN_FD"], os.environ["POPCORN_SEED"]) == ("5", "6")
    monkeypatch.delenv("POPCORN_FD")
    with hidden_from_children():
        assert "POPCORN_SEED" not in os.environ
    assert os.environ["POPCORN_SEED"] == "6" and "POPCORN_FD" not in os.environ


class Lines:
    """A protocol that keeps its lines."""

    def __init__(self):
        self.lines = []

    def log(self, key, value):
        self.lines.append((key, value))


ROUNDS = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0, 5.0]


def test_the_lines_of_a_benchmark_are_in_nanoseconds():
    out = Lines()
    command.log_benchmark(out, 3, Result(CASE, rounds_us=ROUNDS))
    assert [key for key, _ in out.lines] == [
        f"benchmark.3.{name}" for name in ("runs", "mean", "std", "err", "best", "worst")
    ]
    assert [value for _, value in out.lines] == pytest.approx([9, 5000, 2000, 2000 / 3, 2000, 9000])


@pytest.mark.parametrize(
    ("log", "kind"),
    [(command.log_test, "test"), (command.log_benchmark, "benchmark"), (command.log_profile, "benchmark")],
)
def test_the_lines_of_a_failure(log, kind):
    out = Lines()
    log(out, 1, Result(CASE, error="it broke", rounds_us=[1.0], report="x"))
    assert out.lines == [(f"{kind}.1.status", "fail"), (f"{kind}.1.error", "it broke")]


def test_the_lines_of_a_test_and_a_profile():
    out = Lines()
    command.log_test(out, 0, Result(CASE))
    command.log_profile(out, 2, Result(CASE, report="t\u00e4ble\nof times"))
    assert out.lines[0] == ("test.0.status", "pass")
    assert out.lines[1][0] == "benchmark.2.report"
    assert base64.b64decode(out.lines[1][1]).decode() == "t\u00e4ble\nof times"


# --- the command line ---------------------------------------------------------------------------------


def test_each_mode_has_its_runner():
    from eval import supervisor

    assert {
        "test": supervisor.run_test,
        "benchmark": supervisor.run_benchmark,
        "leaderboard": supervisor.run_benchmark,
        "profile": supervisor.run_profile,
    } == command.RUNNERS


@pytest.fixture
def runs(monkeypatch):
    """Runners that keep what they were asked: every second case fails."""
    asked = []

    def runner(submission, case, device, limits):
        asked.append((submission, case.m, device, limits))
        failed = case.m % 2 == 0
        return Result(case, error="wrong" if failed else "", rounds_us=[] if failed else ROUNDS, report="R", inputs=2)

    monkeypatch.setattr(command, "RUNNERS", dict.fromkeys(command.RUNNERS, runner))
    return asked


def cases(*extents):
    return [parse_case(f"m: {m}; n: 1; k: 64; l: 1; seed: {m}") for m in extents]


@pytest.mark.parametrize(
    ("mode", "kind", "lines_of_passed"),
    [("test", "test", 1), ("benchmark", "benchmark", 6), ("profile", "benchmark", 1)],
)
@pytest.mark.parametrize(("extents", "verdict"), [((1, 3), "pass"), ((1, 2), "fail"), ((2, 1), "fail")])
def test_an_evaluation_logs_every_case_as_it_comes(runs, mode, kind, lines_of_passed, extents, verdict):
    out = Lines()
    results = command.evaluate(mode, Path("s.py"), cases(*extents), CPU, out)
    assert [result.case.m for result in results] == list(extents)
    assert [asked[:3] for asked in runs] == [(Path("s.py"), m, CPU) for m in extents]
    keys = [key for key, _ in out.lines]
    assert out.lines[0] == (f"{kind}-count", 2)
    assert out.lines[-1] == ("check", verdict)
    for i, m in enumerate(extents):
        assert (f"{kind}.{i}.spec", f"m: {m}; n: 1; k: 64; l: 1; seed: {m}") in out.lines
        own = [key for key in keys if key.startswith(f"{kind}.{i}.")]
        assert len(own) == 1 + (lines_of_passed if m % 2 else 2)
        assert own[0].endswith(".spec")


@pytest.mark.parametrize("mode", list(command.RUNNERS))
def test_an_evaluation_takes_the_modes_limits(runs, capsys, mode):
    command.evaluate(mode, Path("s.py"), cases(1, 2), CPU, None)
    assert {asked[3] for asked in runs} == {command.limits_for(CPU, mode)}
    shown = capsys.readouterr().err.splitlines()
    assert shown == [f"{mode} {i}/2: m: {i}; n: 1; k: 64; l: 1; seed: {i}" for i in (1, 2)]


def test_the_json_holds_everything_measured(monkeypatch):
    monkeypatch.setattr(chip, "name", lambda device: B200)
    monkeypatch.setattr(torch, "__version__", "9.8")
    monkeypatch.setattr(command.platform, "python_version", lambda: "7.6")
    first = Result(CASE, rounds_us=[10.0, 20.0, 60.0], single_us=[1.5, 2.5], inputs=50, checked=7)
    first.clock_mhz, first.printed = 1500.0, "hello"
    other = Result(parse_case("m: 3; n: 4; k: 64; l: 2; seed: 9"), rounds_us=[5.0], inputs=1, checked=2)
    found = command.as_json("benchmark", Path("/x/s.py"), torch.device("cuda", 1), [first, other])
    results = found.pop("results")
    assert found == {
        "mode": "benchmark",
        "submission": "s.py",
        "device": "cuda",
        "chip": B200,
        "torch": "9.8",
        "python": "7.6",
        "geomean_median_us": pytest.approx(10.0),
    }
    assert results[0] == {
        "m": 256,
        "n": 4096,
        "k": 7168,
        "l": 1,
        "seed": 1111,
        "spec": SPEC,
        "passed": True,
        "error": "",
        "inputs": 50,
        "outputs_checked": 7,
        "rounds_us": [10.0, 20.0, 60.0],
        "median_us": 20.0,
        "mean_us": pytest.approx(30.0),
        "relative_spread": pytest.approx(25 / 2 / 20),
        "single_us": [1.5, 2.5],
        "sm_clock_mhz": 1500.0,
        "speed_of_light_us": 4.708,
        "speed_of_light_basis": "published with the task",
        "printed": "hello",
    }
    assert (results[1]["l"], results[1]["median_us"], results[1]["relative_spread"]) == (2, 5.0, 0.0)


def test_the_json_of_a_failure_has_no_times(monkeypatch):
    monkeypatch.setattr(chip, "name", lambda device: "some CPU")
    failed = Result(CASE, error="it broke", inputs=3)
    for results in ([failed], [Result(CASE, rounds_us=[1.0]), failed], [Result(CASE)]):
        assert command.as_json("test", Path("s.py"), CPU, results)["geomean_median_us"] is None
    case = command.case_json(failed, "some CPU")
    assert (case["passed"], case["error"]) == (False, "it broke")
    for key in ("median_us", "mean_us", "relative_spread", "speed_of_light_us", "speed_of_light_basis", "sm_clock_mhz"):
        assert case[key] is None, key


@pytest.mark.parametrize(("text", "index"), [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)])
def test_a_device_is_named_with_its_index(monkeypatch, text, index):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert command.device_option(text) == torch.device("cuda", index)
    assert command.device_option("cpu:0") == command.device_option("cpu") == CPU


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [
        ("cuda", 0, "'cuda'; torch sees 0 CUDA devices here"),
        ("cuda:2", 2, "'cuda:2'; torch sees 2 CUDA devices here"),
        ("meta", 2, "'meta'; expected cpu or cuda"),
        ("abacus", 2, "'abacus' is no device torch knows; expected cpu or cuda"),
    ],
)
def test_a_device_that_is_not_there_is_told(monkeypatch, text, count, message):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(argparse.ArgumentTypeError) as error:
        command.device_option(text)
    assert str(error.value) == message


@pytest.fixture
def one_case(tmp_path):
    path = tmp_path / "cases.txt"
    path.write_text("m: 1; n: 1; k: 64; l: 1; seed: 1")
    return path


def test_the_command_lines_defaults(root, monkeypatch, one_case):
    monkeypatch.delenv("POPCORN_SEED", raising=False)
    monkeypatch.setattr(command, "default_device", lambda: CPU)
    options = command.parse_arguments(["test", str(one_case)])
    assert (options.mode, options.cases, options.json, options.secret) == ("test", one_case, None, None)
    assert options.submission == root / "submission" / "submission.py"
    assert options.device == CPU


@pytest.mark.parametrize(("extent", "code"), [(1, 0), (2, 112)])
def test_the_exit_code_tells_whether_every_case_passed(runs, monkeypatch, tmp_path, capsys, extent, code):
    path, record = tmp_path / "c.txt", tmp_path / "out.json"
    path.write_text("\n".join(f"m: {m}; n: 1; k: 64; l: 1; seed: 1" for m in (1, extent, 1)))
    monkeypatch.delenv("POPCORN_FD", raising=False)
    monkeypatch.setenv("POPCORN_SEED", "2")
    assert command.main(["test", str(path), "--json", str(record), "--device", "cpu"]) == code
    shown = capsys.readouterr().out
    assert f"{2 + extent % 2} of 3 tests pass" in shown
    written = json.loads(record.read_text())
    assert [result["passed"] for result in written["results"]] == [True, extent == 1, True]
    assert written["results"][0]["seed"] == 1 + 3 * 4 // 2
    assert record.read_text().endswith("}\n")


def test_a_bad_case_file_is_told_before_anything_runs(runs, monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("POPCORN_FD", raising=False)
    assert command.main(["test", str(tmp_path / "none.txt"), "--device", "cpu"]) == 113
    assert "eval.py: cannot read" in capsys.readouterr().err
    assert runs == []


# --- the report ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("us", "text"),
    [(0.1234, "0.123 us"), (1, "1 us"), (12.345, "12.3 us"), (999.4, "999 us"), (1000, "1 ms"), (123456, "123 ms")],
)
def test_times_have_three_digits_and_a_unit_that_fits(us, text):
    assert report.time_text(us) == text


def test_a_shape_tells_its_batches_if_there_are_several():
    assert report.shape_text(Result(CASE)) == "256 4096 7168"
    assert report.shape_text(Result(parse_case("m: 1; n: 2; k: 64; l: 2; seed: 1"))) == "1 2 64 x 2"


def test_a_table_is_aligned(capsys):
    report.print_table("Title", ["name", "n"], [["a", "1000"], ["longer", "7"]])
    assert capsys.readouterr().out == "Title\nname       n\n------  ----\na       1000\nlonger     7\n"


def test_a_failure_shows_the_last_twenty_lines_it_printed(capsys):
    printed = "\n".join(f"line {i}" for i in range(25))
    report.print_failures([Result(CASE), Result(CASE, error="it broke", printed=printed)])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["FAIL 256 4096 7168: it broke", *(f"  submission: line {i}" for i in range(5, 25))]


def test_tests_are_listed_with_their_seed(capsys):
    report.print_tests([Result(CASE), Result(CASE, error="it broke")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 of 2 tests pass"
    assert lines[1].split() == ["M", "N", "K", "seed"]
    assert [line.split()[-2:] for line in lines[3:5]] == [["1111", "pass"], ["1111", "FAIL"]]
    assert lines[5] == "FAIL 256 4096 7168: it broke"


def rows_of(capsys, results, name):
    report.print_benchmarks(results, name)
    lines = capsys.readouterr().out.splitlines()
    return lines


def test_a_benchmarks_row_by_hand(capsys):
    first = Result(
        CASE, rounds_us=[10.0, 20.0, 60.0], single_us=[1.0, 2.0, 9.0], inputs=50, checked=4, clock_mhz=1500.0
    )
    second = Result(parse_case("m: 512; n: 4096; k: 7168; l: 1; seed: 1"), rounds_us=[5.0], inputs=3, checked=2)
    second.clock_mhz = 1700.4
    lines = rows_of(capsys, [first, second], B200)
    assert lines[0] == f"{B200}: median time of a call, distinct inputs in rotation"
    columns = [[cell for cell in line.split("  ") if cell.strip()] for line in lines]
    assert [cell.strip() for cell in columns[3]] == [
        "256 4096 7168",
        "20 us",
        "62.5 %",
        "2 us",
        "4.71 us",
        "4.25",
        "3 x 50",
    ]
    assert [cell.strip() for cell in columns[4]] == [
        "512 4096 7168",
        "5 us",
        "0.0 %",
        "the same",
        "8.71 us",
        "0.57",
        "1 x 3",
    ]
    assert lines[5].split() == ["geometric", "mean", "10", "us"]
    assert lines[6].endswith("; 6 outputs checked")
    assert lines[7] == "speed of light: published with the task"
    assert lines[8] == "SM clock right after a timed round: 1500 to 1700 MHz"
    assert len(lines) == 9


def test_a_failed_benchmark_has_no_figures_and_there_is_no_mean(capsys):
    lines = rows_of(capsys, [Result(CASE, rounds_us=[5.0], inputs=3), Result(CASE, error="it broke")], "some CPU")
    assert lines[3].split() == [
        "256",
        "4096",
        "7168",
        "5",
        "us",
        "0.0",
        "%",
        "the",
        "same",
        "n/a",
        "n/a",
        "1",
        "x",
        "3",
    ]
    assert lines[4].split() == ["256", "4096", "7168", "FAIL"]
    assert not any("geometric" in line or "SM clock" in line for line in lines)
    assert "speed of light: not known for this chip" in lines
    assert lines[-1] == "FAIL 256 4096 7168: it broke"


@pytest.mark.parametrize(
    ("mode", "text"),
    [("test", "1 of 1 tests pass"), ("profile", "256 4096 7168\nthe profile"), ("leaderboard", "median time")],
)
def test_each_mode_prints_its_report(capsys, mode, text):
    command.print_report(mode, [Result(CASE, rounds_us=ROUNDS, inputs=1, report="the profile")], "some CPU")
    assert text in capsys.readouterr().out


def test_a_failed_profile_is_told(capsys):
    command.print_report("profile", [Result(CASE, error="it broke")], "some CPU")
    assert "FAIL 256 4096 7168: it broke" in capsys.readouterr().out


def test_a_terminal_sees_a_bar_that_moves_on_with_each_case(monkeypatch):
    if report.Console is None:
        pytest.skip("rich is not installed")
    moves = []

    class Bar:
        def __init__(self, *columns, **options):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def add_task(self, title, total):
            moves.append((title, total))
            return 1

        def update(self, task, description, advance):
            moves.append((description, advance))

    monkeypatch.setattr(report, "Progress", Bar)
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    with report.progress("test", 2) as step:
        step("first")
        step("second")
    assert moves == [("test", 2), ("test: first", 0), ("test: second", 1)]


def test_the_median_of_a_result_is_its_rounds():
    assert Result(CASE, rounds_us=[3.0, 1.0, 9.0, 2.0]).median_us == statistics.median([3.0, 1.0, 9.0, 2.0]) == 2.5
    assert Result(CASE).passed and not Result(CASE, error="x").passed
    assert Limits() == Limits(180.0, 10.0, 120.0, 200, 50, 10, None)
