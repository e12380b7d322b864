"""The benches without a GPU: checks before timing, figures from samples, files that they write."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from types import SimpleNamespace

import pytest
import torch

from reference.reference import ref_kernel
from scripts.bench import compare
from scripts.bench.baselines import dual_baselines as baselines
from scripts.bench.dual import dual_variants as dual

SHAPE = (40, 72, 128)


@pytest.fixture(scope="module")
def problem():
    return compare.Problem(*SHAPE, inputs=3, device="cpu")


@pytest.fixture(scope="module")
def wants(problem):
    return [ref_kernel(data).clone() for data in problem.data]


def right(problem, wants):
    """A call that gives the reference's results, and notes which inputs it had."""
    seen = []

    def call(i):
        seen.append(i)
        problem.data[i][-1].copy_(wants[i])

    call.seen = seen
    return call


# --- what is compared ----------------------------------------------------------------------------------------


def test_a_problem_has_distinct_inputs_and_their_expansion(problem):
    from reference import nvfp4

    m, n, k = SHAPE
    assert len({data[0].view(torch.uint8).sum().item() for data in problem.data}) == 3
    assert problem.both.shape == (m, 2 * n) and problem.both.dtype == torch.half
    for data, (a, b1, b2), stacked in zip(problem.data, problem.dequantized, problem.stacked, strict=True):
        for matrix, place in ((a, 0), (b1, 1), (b2, 2)):
            assert torch.equal(matrix, nvfp4.decode(data[place][..., 0], data[place + 3][..., 0]).half())
        assert torch.equal(stacked, torch.cat((b1, b2))) and stacked.shape == (2 * n, k)
    assert problem.output(1).shape == (m, n) and problem.output(1).data_ptr() == problem.data[1][-1].data_ptr()


@pytest.mark.parametrize("name", ["cublas_one_gemm", "cublas_two_gemms", "dequantize_cublas"])
def test_baselines_give_right_results(problem, wants, name):
    call = baselines.baseline(problem, name)
    assert compare.check(problem, name, call, wants) == ""
    changed = [want * 1.5 for want in wants]
    assert compare.check(problem, name, call, changed).startswith(f"{name}: relative error 0.3")


def test_a_check_looks_at_the_first_and_last_input_and_at_every_element(problem, wants):
    call = right(problem, wants)
    assert compare.check(problem, "auto", call, wants) == "" and call.seen == [0, 2]
    assert compare.check(problem, "auto", lambda i: None, wants).startswith("auto: ")

    def one_missing(i):
        problem.data[i][-1].flatten()[1:].copy_(wants[i].flatten()[1:])

    assert compare.check(problem, "auto", one_missing, wants).startswith("auto: ")

    def last_wrong(i):
        problem.data[i][-1].copy_(wants[i] if i == 0 else wants[0])

    assert compare.check(problem, "auto", last_wrong, wants).startswith("auto: ")
    # Only products that round to fp16 may be off by more than the checker allows.
    assert compare.check(problem, "auto", lambda i: problem.data[i][-1].copy_(wants[i] * 1.01), wants) != ""
    rounded = "cublas_two_gemms"
    assert compare.check(problem, rounded, lambda i: problem.data[i][-1].copy_(wants[i] * 1.01), wants) == ""
    assert compare.check(problem, rounded, lambda i: problem.data[i][-1].copy_(wants[i] * 1.03), wants) != ""
    assert compare.check(problem, rounded, lambda i: None, wants) != ""


def test_an_ungated_product_is_gated_for_its_check(problem, wants):
    for name in baselines.UNGATED:
        assert compare.check(problem, name, baselines.baseline(problem, "cublas_one_gemm"), wants) == ""
        assert compare.check(problem, name, lambda i: None, wants) != ""  # the previous result was erased
    assert set(baselines.UNGATED) < set(baselines.ROUNDED) < set(baselines.BASELINES)


@pytest.mark.parametrize(
    ("name", "library", "config", "dependent"),
    [
        ("auto", "", "", "1"),
        ("auto+again", "", "", "1"),
        ("auto+plain", "", "", "0"),
        ("m256n64", "", "m256n64", "1"),
        ("old/m256n64+plain", "old", "m256n64", "0"),
        ("old/auto", "old", "", "1"),
    ],
)
def test_a_variant_is_a_library_and_what_it_reads(problem, monkeypatch, name, library, config, dependent):
    called = []
    kernels = {key: lambda data, key=key: called.append((key, data)) for key in ("", "old")}
    for backend in ("HOPPER", "BLACKWELL", "GEFORCE"):
        monkeypatch.setenv(f"NVFP4_{backend}_CONFIG", "x")
        monkeypatch.setenv(f"NVFP4_{backend}_DEPENDENT_LAUNCH", "x")
    call = compare.ours(problem, name, kernels, "blocked")
    assert os.environ["NVFP4_HOPPER_CONFIG"] == "x"  # set only when its turn comes
    call.prepare()
    for backend in ("HOPPER", "BLACKWELL", "GEFORCE"):
        found = os.environ[f"NVFP4_{backend}_CONFIG"], os.environ[f"NVFP4_{backend}_DEPENDENT_LAUNCH"]
        assert found == (config, dependent)
    call(1)
    assert [(key, data is problem.data[1]) for key, data in called] == [(library, True)]


def test_rows_of_scale_factors_are_seven_tensors(problem):
    called = []
    compare.ours(problem, "auto", {"": called.append}, "rows")(1)
    (data,) = called
    assert len(data) == 7 and all(a is b for a, b in zip(data, (*problem.data[1][:6], problem.data[1][9]), strict=True))


def test_another_library_has_a_shim_of_its_own(library_path, monkeypatch):
    monkeypatch.delenv("NVFP4_LIBRARY", raising=False)
    kernel = compare.load_shim(str(library_path))
    assert kernel is not compare.custom_kernel and "NVFP4_LIBRARY" not in os.environ
    with pytest.raises((OSError, ImportError)):
        compare.load_shim("/no/such/library.so")
    assert "NVFP4_LIBRARY" not in os.environ


# --- timing --------------------------------------------------------------------------------------------------


def test_a_round_prepares_once_and_calls_each_input(monkeypatch):
    calls = []

    def call(i):
        calls.append(i)

    call.prepare = lambda: calls.append("prepare")
    clock = iter([1.0, 1.5])
    monkeypatch.setattr(compare.time, "perf_counter", lambda: next(clock))
    assert compare.Timer("cpu").round_us(call, 4) == pytest.approx(0.5e6 / 4)
    assert calls == ["prepare", 0, 1, 2, 3]


class Clock:
    """Rounds of a second, for the time limit; a variant's times by name."""

    def __init__(self, monkeypatch, names):
        self.now, self.order, self.names, self.last_mhz = 0.0, [], names, 1980
        monkeypatch.setattr(compare.time, "monotonic", lambda: self.now)

    def round_us(self, call, count):
        self.now += 1.0
        self.order.append((self.names[call], count))
        return 10.0 * len(self.order)


@pytest.fixture
def shaped(monkeypatch):
    """run_shape with variants that are right, or fail as their name says; on a small problem."""

    def run(*variants, repeats=3, seconds=1000.0):
        names, made = {}, {}

        def ours(problem, name, kernels, scales):
            if name == "raises":
                raise ValueError("no " + "x" * 400)
            made[name] = call = right(problem, [ref_kernel(data).clone() for data in problem.data])
            if name == "wrong":
                return_value = lambda i: problem.data[i][-1].zero_()  # noqa: E731
                names[return_value] = name
                return return_value
            if name == "later":
                honest = call

                def call(i):
                    honest(i)
                    if len(honest.seen) > 2:
                        problem.data[i][-1].zero_()

            names[call] = name
            return call

        monkeypatch.setattr(compare, "ours", ours)
        monkeypatch.setattr(compare, "Problem", lambda m, n, k, inputs, device: small(inputs))
        clock = Clock(monkeypatch, names)
        origin, digests = {"program": "p.py", "host": "h", "chip": "c"}, {name: f"of {name}" for name in variants}
        options = argparse.Namespace(
            problem="dual_gemm",
            inputs=2,
            device="cpu",
            kernels={},
            repeats=repeats,
            seconds=seconds,
            origin=origin,
            digests=digests,
        )
        options.scales = "blocked"
        random.seed(1)
        samples, left_out = compare.run_shape(SHAPE, list(variants), options, clock)
        return SimpleNamespace(samples=samples, left_out=left_out, order=clock.order)

    real = compare.Problem

    def small(inputs):
        return real(*SHAPE, inputs=inputs, device="cpu")

    return run


def test_rounds_of_all_variants_are_interleaved(shaped):
    found = shaped("a", "b", "c", repeats=4)
    assert found.left_out == {}
    assert [name for name, _ in found.order[:3]] == ["a", "b", "c"]  # one each to warm up
    rounds = [found.order[3 + 3 * i : 6 + 3 * i] for i in range(4)]
    assert [sorted(name for name, _ in part) for part in rounds] == [["a", "b", "c"]] * 4
    assert len({tuple(part) for part in rounds}) > 1  # the order varies
    assert {count for _, count in found.order} == {2}
    assert [(s["variant"], s["us"]) for s in found.samples] == [
        (name, 10.0 * (4 + i)) for i, (name, _) in enumerate(found.order[3:])
    ]
    assert [s["repeat"] for s in found.samples] == [i // 3 for i in range(12)]
    assert found.samples[0]["shape"] == list(SHAPE)
    assert all(sample["digest"] == f"of {sample['variant']}" for sample in found.samples)
    origin = {"program": "p.py", "host": "h", "chip": "c", "sm_mhz": 1980}
    assert all(sample.items() >= origin.items() for sample in found.samples)


def test_the_time_limit_ends_whole_rounds(shaped):
    assert len(shaped("a", "b", repeats=9, seconds=3.0).samples) == 4  # two seconds each, begun at 0 and 2
    assert len(shaped("a", "b", repeats=9, seconds=4.0).samples) == 4


def test_a_wrong_variant_is_left_out_and_reported(shaped, capsys):
    found = shaped("a", "wrong", "raises", "later")
    assert {sample["variant"] for sample in found.samples} == {"a"}
    assert found.left_out["raises"] == "raises: ValueError: no " + "x" * 297
    assert found.left_out["wrong"].startswith("wrong: ")
    assert found.left_out["later"].startswith("wrong after timing: later: ")
    said = capsys.readouterr().out
    assert all(f"left out at {SHAPE}: {reason}" in said for reason in found.left_out.values())
    assert {name for name, _ in found.order} == {"a", "later"}


def test_a_wrong_reference_ends_it_all(shaped, monkeypatch):
    monkeypatch.setattr(dual, "check_against_oracle", lambda data, output: (False, "off"))
    with pytest.raises(RuntimeError, match="the reference is wrong: off"):
        shaped("a")


def samples_of(**times):
    """Samples of two shapes, the second's twice the first's."""
    return [
        {"shape": [1 + i, 2, 3], "variant": name, "repeat": repeat, "us": us * (1 + i)}
        for i in range(2)
        for name, values in times.items()
        for repeat, us in enumerate(values)
    ]


def test_the_table_is_of_medians_and_ratios(monkeypatch):
    tables = []
    monkeypatch.setattr(compare, "print_table", lambda *table: tables.append(table))
    samples = samples_of(auto=[10.0, 11.0, 30.0], again=[10.0, 11.0, 30.0], cublas_one_gemm=[5.5, 5.5, 5.5])
    samples = [s for s in samples if s["variant"] != "again" or s["shape"][0] == 1]
    names = ["auto", "again", "cublas_one_gemm", "none"]
    compare.report(samples, names, [(1, 2, 3), (2, 2, 3)], "CHIP")
    ((title, head, rows),) = tables
    assert title == "CHIP: us a call, medians of interleaved rounds"
    assert head == ["variant", "1x2x3", "2x2x3", "geomean", "spread", "/ auto", "/ cublas_one_gemm"]
    spread = 100 * compare.relative_spread([10.0, 11.0, 30.0])
    assert rows == [
        ["auto", "11.00", "22.00", "15.56", f"{spread:.1f} %", "1.000", "2.000"],
        ["again", "11.00", "-", "-", "-", "-", "-"],
        ["cublas_one_gemm", "5.50", "11.00", "7.78", "0.0 %", "0.500", "1.000"],
        ["none", *["-"] * 6],
    ]
    compare.report(samples_of(auto=[1.0, 1.0]), ["auto"], [(1, 2, 3)], "CHIP")
    assert tables[1][2] == [["auto", "1.00", "1.00", "0.0 %", "1.000", "-"]]


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """Runs compare.py's command line; each shape gives the samples and left_out passed in."""

    def run(*words, left_out=None, **times):
        seen = []

        def run_shape(shape, variants, options, timer):
            seen.append((shape, variants, options))
            samples = [s | {"shape": list(shape)} for s in samples_of(**times) if s["shape"][0] == 1]
            return samples, left_out or {}

        monkeypatch.setattr(compare, "run_shape", run_shape)
        monkeypatch.setattr(compare, "print_table", lambda *table: None)
        files = {name: tmp_path / name for name in ("samples", "env", "json")}
        words = [*words, *(word for name, path in files.items() for word in (f"--{name}", str(path)))]
        monkeypatch.setattr(sys, "argv", ["compare.py", *words])
        status = compare.main()
        written = {name: path.read_text() if path.exists() else "" for name, path in files.items()}
        return SimpleNamespace(status=status, seen=seen, said=capsys.readouterr(), **written)

    return run


def test_its_files(command):
    done = command("--device", "cpu", "--shapes", "1x2x3,4x5x6", "--commit", "abc", auto=[1.0, 3.0, 2.0])
    assert done.status == 0
    shapes = [[1, 2, 3]] * 3 + [[4, 5, 6]] * 3
    rows = [json.loads(line) for line in done.samples.splitlines()]
    assert [(row["shape"], row["us"]) for row in rows] == list(zip(shapes, [1.0, 3.0, 2.0] * 2, strict=True))
    env, summary = json.loads(done.env), json.loads(done.json)
    assert env["commit"] == "abc" and set(env) >= {"chip", "driver", "versions", "clocks", "flags", "digests"}
    assert summary["median_us"]["auto"] == {"1x2x3": 2.0, "4x5x6": 2.0}
    assert summary["left_out"] == {} and env.items() <= summary.items()


def test_only_a_variant_of_ours_that_is_left_out_fails(command):
    assert command("--device", "cpu", left_out={"triton": "no"}).status == 0
    done = command("--device", "cpu", left_out={"auto": "auto: bad", "triton": "no"})
    assert done.status == 1 and "left out: auto: bad\n" in done.said.out
    refused = "k is 512; expected at least 832 on the blackwell backend with tile m256n192k4, which splits K among 4"
    assert command("--device", "cpu", left_out={"m256n192k4": refused}).status == 0


def test_without_a_device_it_says_so(command, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = command()
    assert done.status == 1 and done.seen == [] and "no CUDA device" in done.said.err


def test_baselines_are_timed_without_tf32(monkeypatch):
    """cuBLAS may not round fp32 operands to 10 bits, even if the process allowed it before."""
    matmul = torch.backends.cuda.matmul

    def load(options):
        raise RuntimeError(f"TF32: {matmul.allow_tf32}")

    monkeypatch.setattr(compare, "load_kernels", load)
    allowed = matmul.allow_tf32
    try:
        matmul.allow_tf32 = True
        with pytest.raises(RuntimeError, match="TF32: False"):
            compare.measure(compare.parser().parse_args([]))
    finally:
        matmul.allow_tf32 = allowed
