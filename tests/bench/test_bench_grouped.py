"""The grouped GEMM in compare.py and check_gpu.py, on the CPU: what is timed, what its checks see."""

from __future__ import annotations

import json
import os

import pytest
import torch

from reference import nvfp4
from reference.problems.group_gemm import GroupGemm
from scripts.bench import compare
from scripts.bench.groups import group_checks as check_groups
from scripts.bench.groups import group_variants as grouped
from submission.group_submission import custom_kernel

SHAPE = ("5,0,3", 64, 128)
DEPENDENT = tuple(f"NVFP4_{backend}_DEPENDENT_LAUNCH" for backend in ("HOPPER", "BLACKWELL", "GEFORCE"))


@pytest.fixture(scope="module")
def problem():
    return grouped.Problem(*SHAPE, 2, "cpu")


@pytest.fixture(scope="module")
def wants(problem):
    return grouped.wanted(problem)


def test_a_shape_is_read_from_its_text():
    assert grouped.shape_of(("80,176", 4096, "7168")) == GroupGemm((80, 176), (4096, 4096), (7168, 7168))
    for parts in (("1,2", "1,2,3", 64), (1, 2)):
        with pytest.raises(ValueError, match="expected M N K, each of"):
            grouped.shape_of(parts)


def test_inputs_are_distinct_and_operands_are_their_values(problem):
    first, second = (data[0][0][0].view(torch.uint8) for data in problem.data)
    assert not torch.equal(first, second)
    (a, b, _), (sfa, sfb) = problem.data[1][0][2], problem.data[1][1][2]
    for code, scale, got in zip((a, b), (sfa, sfb), problem.dequantized[1][2], strict=True):
        assert torch.equal(got, nvfp4.decode(code[..., 0], scale[..., 0]).half())


@pytest.mark.parametrize("name", [*grouped.DEFAULTS, "auto"])
def test_every_element_of_every_input_is_held_to_the_reference(problem, wants, name):
    kernels = {"": custom_kernel}
    call = grouped.baseline(problem, name) if name in grouped.BASELINES else grouped.ours(problem, name, kernels, "")
    assert grouped.check(problem, name, call, wants) == ""

    def spoilt(value):
        def called(i):
            call(i)
            getattr(call, "finish", lambda: None)()
            if i == 1:
                problem.outputs(1)[2][-1, -1] = value

        return called

    for value in (float("nan"), 1e4):
        assert grouped.check(problem, name, spoilt(value), wants).startswith(f"{name}: group 2 of 3: ")
    # The output of an earlier check does not count as a result.
    assert grouped.check(problem, name, lambda i: None, wants).startswith(f"{name}: group 0 of 3: ")


def test_the_library_is_held_closer_than_what_sums_in_another_order(problem, wants):
    def off(i):
        for output, want in zip(problem.outputs(i), wants[i], strict=True):
            output.copy_(want * 1.01)

    assert grouped.check(problem, "auto", off, wants) != "" == grouped.check(problem, "cublas_groups", off, wants)


def test_groups_of_different_sizes_have_no_one_product():
    with pytest.raises(ValueError, match="one N and one K"):
        grouped.baseline(grouped.Problem("2,3", "8,16", 64, 1, "cpu"), "grouped_mm")


@pytest.mark.parametrize(
    ("name", "tile", "dependent"), [("auto", "", "1"), ("old/m64+plain", "m64", "0"), ("avx2", "", "1")]
)
def test_a_variant_is_a_library_and_what_it_reads(problem, monkeypatch, name, tile, dependent):
    called = []
    for variable in (grouped.CONFIG_VARIABLE, "NVFP4_CPU_ISA", *DEPENDENT):
        monkeypatch.setenv(variable, "x")
    call = grouped.ours(problem, name, {"": called.append, "old": called.append}, "")
    assert os.environ[grouped.CONFIG_VARIABLE] == "x"  # set only when its turn comes
    call.prepare()
    assert os.environ[grouped.CONFIG_VARIABLE] == tile
    assert os.environ["NVFP4_CPU_ISA"] == (name if name == "avx2" else "")
    assert {os.environ[variable] for variable in DEPENDENT} == {dependent}
    call(1)
    assert called == [problem.data[1]]


def test_another_library_has_a_shim_of_its_own(problem, wants, library_path, monkeypatch):
    monkeypatch.setenv("NVFP4_LIBRARY", "before")
    kernel = grouped.load_shim(str(library_path), compare.ROOT)
    assert kernel is not custom_kernel and os.environ["NVFP4_LIBRARY"] == "before"
    assert grouped.check(problem, "auto", lambda i: kernel(problem.data[i]), wants) == ""


def test_a_comparison_times_groups_and_their_baselines(tmp_path, capsys):
    path, samples = tmp_path / "x.json", tmp_path / "x.jsonl"
    words = ["--problem", "group_gemm", "--device", "cpu", "--shapes", "5,0,3x64x128;7x8,16x64", "--repeats", "2"]
    words += ["--inputs", "2", "--variants", "auto,old/auto", "--checkout", f"old={compare.ROOT}"]
    assert compare.main([*words, "--json", str(path), "--samples", str(samples)]) == 0
    record = json.loads(path.read_text())
    both = ["5,0,3x64x128", "7x8,16x64"]
    timed = {name: list(times) for name, times in record["median_us"].items()}
    assert timed == {"auto": both, "old/auto": both, "cublas_groups": both, "grouped_mm": both[:1]}
    assert record["left_out"].keys() == {"grouped_mm"}
    row = json.loads(samples.read_text().splitlines()[0])
    assert (row["shape"], row["program"]) == (["5,0,3", 64, 128], "scripts/bench/compare.py")
    assert "/ cublas_groups" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["leaderboard", "full", "many", "repeats", "back_to_back", "produced_inputs", "rings"])
def test_each_check_passes_a_right_kernel_and_fails_one_that_leaves_an_element(monkeypatch, name):
    small = {"BENCHMARK": GroupGemm((3, 5), (24, 24), (128, 128))}
    monkeypatch.setattr(check_groups, "device", "cpu")
    monkeypatch.setattr(check_groups, "REPEATS", 2)
    monkeypatch.setattr(check_groups, "EDGES", GroupGemm((1, 0, 40), (7, 64, 130), (64, 64, 192)))
    monkeypatch.setattr(check_groups, "GroupGemm", lambda *of: GroupGemm(*(tuple(x)[:4] for x in of)))
    real, poisoned = check_groups.read_cases, check_groups.poisoned
    monkeypatch.setattr(check_groups, "read_cases", lambda path: real(path)[:2])

    def shrunk(shape, seed=1111, full=False):
        return poisoned(small["BENCHMARK"] if max(shape.n) > 1000 else shape, seed, full)

    monkeypatch.setattr(check_groups, "poisoned", shrunk)
    found = list(check_groups.CHECKS[name]())
    assert found and all(ok for _, ok, _ in found), found
    calls = []

    def leaves(data):
        outputs = custom_kernel(data)
        calls.append(1)
        if calls[1:]:  # repeats are compared with the first call
            outputs[-1].view(torch.int16)[-1, -1] ^= 1 << 14
        return outputs

    calls += [1] if name in ("leaderboard", "full", "many", "rings") else []
    monkeypatch.setattr(check_groups, "custom_kernel", leaves)
    assert not all(ok for _, ok, _ in check_groups.CHECKS[name]())
