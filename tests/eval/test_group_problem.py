"""The grouped GEMM in the harness: case lines with lists, its floors, its verdicts, and a few cheats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from eval import command
from eval.cases import CasesError, parse_case, read_cases
from eval.hardware import capacity, chip
from eval.judge import judges_of
from eval.output import record, report
from eval.supervisor import Limits, Result, round_inputs, run_benchmark, run_test
from reference import group_reference
from reference.problems import DEFAULT, PROBLEMS
from reference.problems.group_gemm import PROBLEM, GroupGemm
from reference.problems.interface import FULL, KINDS, blank

CPU = torch.device("cpu")
ADVERSARIAL = Path(__file__).resolve().parents[1] / "adversarial"
LINE = "m: [96, 128]; n: [128, 256]; k: [256, 512]; g: 2; seed: 1111"
SMALL = GroupGemm((40, 0, 8), (16, 24, 8), (128, 64, 64))
CASE = parse_case("m: [40, 0, 8]; n: [16, 24, 8]; k: [128, 64, 64]; g: 3; seed: 5")


# --- case lines ------------------------------------------------------------------------------------------


def test_a_line_with_lists_is_a_case_of_the_grouped_gemm():
    case = parse_case(LINE)
    assert case == (GroupGemm((96, 128), (128, 256), (256, 512)), 1111, LINE) and case.problem is PROBLEM
    assert parse_case("g:1;seed: 7; m:[ +3 ];n: [2] ;k: [64]").shape == ((3,), (2,), (64,))
    assert parse_case(LINE, secret=3).seed != 1111


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("m: 96; n: [1]; k: [64]; g: 1; seed: 1", "'m: 96' is not `name: [integer, ...]`"),
        ("m: [1]; n: [1]; k: [64]; g: [1]; seed: 1", "'g: [1]' is not `name: integer`"),
        ("m: []; n: [1]; k: [64]; g: 1; seed: 1", "'m: []' is not `name: [integer, ...]`"),
        ("m: [1,]; n: [1]; k: [64]; g: 1; seed: 1", "'m: [1,]' is not `name: [integer, ...]`"),
        ("m: [1, 2]; n: [1]; k: [64]; g: 1; seed: 1", "m has 2 values; expected 1, as g says"),
        ("m: [1, -2]; n: [1, 1]; k: [64, 64]; g: 2; seed: 1", "m of group 1 is -2; expected at least 0"),
        ("m: [1, 2]; n: [1, 0]; k: [64, 64]; g: 2; seed: 1", "n of group 1 is 0; expected at least 1"),
        ("m: [1, 2]; n: [1, 1]; k: [64, 32]; g: 2; seed: 1", "k of group 1 is 32; expected a multiple of 64"),
        ("m: [0, 0]; n: [1, 1]; k: [64, 64]; g: 2; seed: 1", "m is 0 in every group; expected one with rows"),
        ("m: [1]; n: [1]; k: [64]; g: 257; seed: 1", "g is 257; expected 1 to 256"),
        ("m: [1]; n: [1]; k: [64]; g: 1; seed: -1", "seed is -1; expected at least 0"),
        ("m: [" + "9" * 20 + "]; n: [1]; k: [64]; g: 1; seed: 1", "m has 20 digits; expected at most 19"),
        ("m: [1]; n: [1]; k: [64]; g: 1; l: 1", "'l' is unknown; expected ('m', 'n', 'k', 'g', 'seed')"),
    ],
)
def test_what_is_wrong_with_a_line_names_the_group(line, message):
    with pytest.raises(CasesError) as error:
        parse_case(line)
    assert str(error.value) == message


def test_a_file_is_of_one_problem_which_may_be_given(tmp_path):
    path = tmp_path / "cases.txt"
    path.write_text(f"{LINE}\n{DEFAULT.example}\n")
    with pytest.raises(CasesError, match=r"cases\.txt:2: 'm: 256' is not `name: \[integer, \.\.\.\]`"):
        read_cases(path)
    path.write_text(DEFAULT.example)
    assert command.parse_arguments(["test", str(path)]).problem is DEFAULT
    assert command.parse_arguments(["test", str(path), "--problem", "group_gemm"]).problem is PROBLEM
    path.write_text(LINE)
    options = command.parse_arguments(["test", str(path)])
    assert options.problem is PROBLEM and options.submission.name == "group_submission.py"


def test_each_problem_has_its_own_files_and_text(root, monkeypatch):
    for problem in PROBLEMS.values():
        options = command.parse_arguments(["test", "--problem", problem.name])
        assert options.cases == root / problem.cases / "test.txt" and options.submission == root / problem.submission
        files = (root / problem.cases / f"{name}.txt" for name in ("test", "benchmark", "full"))
        shapes = [case.shape for file in files for case in read_cases(file)]
        assert {shape.problem for shape in shapes if shape.problem is not problem} == set()
        assert problem.leaderboard in (root / problem.task).read_text()
        assert parse_case(problem.example, problem=problem).problem is problem
    assert command.parse_arguments(["test"]).problem is DEFAULT


def test_the_case_files_are_the_leaderboards(root):
    tests, benchmarks, full = (
        read_cases(root / PROBLEM.cases / f"{name}.txt") for name in ("test", "benchmark", "full")
    )
    assert [case.shape for case in tests][::3] == [
        ((96, 128), (128, 256), (256, 512)),
        ((80, 128, 256), (384, 256, 128), (256, 512, 256)),
        ((128, 128, 64), (256, 512, 512), (768, 256, 768)),
        ((512, 384, 256, 128), (256,) * 4, (512, 768, 512, 768)),
    ]
    assert len(tests) == 10 and {case.seed for case in (*tests, *benchmarks)} == {1111}
    assert {case.shape for case in benchmarks} == set(PROBLEM.published_us["B200"])
    assert any(0 in case.shape.m for case in full) and any(len({*case.shape.k}) > 4 for case in full)


# --- floors and limits -----------------------------------------------------------------------------------


def test_floors_sum_over_groups_and_empty_groups_cost_nothing():
    rates = chip.Attributes("chip", 1e9, 1e9)
    adds = 40 * 16 * 128 + 8 * 8 * 64
    assert chip.impossible_us(SMALL, rates) == pytest.approx(adds / 1e9 * 1e6)
    read = (40 + 16) * (64 + 8) + (8 + 8) * (32 + 4)
    assert chip.impossible_us(SMALL, rates._replace(multiply_adds_per_second=1e15)) == pytest.approx(read / 1e9 * 1e6)
    assert chip.work(SMALL) == (2 * adds, read + 2 * (40 * 16 + 8 * 8))


def test_published_times_are_the_memory_floors_at_the_boards_rate():
    for shape, us in PROBLEM.published_us["B200"].items():
        flops, traffic = chip.work(shape)
        assert max(traffic / 7.68e12, flops / 6.90e15) * 1e6 == pytest.approx(us, rel=0.02)
        assert chip.speed_of_light(shape, "NVIDIA B200") == (us, "published with the task")


def test_rounds_have_at_most_fifteen_inputs(monkeypatch):
    monkeypatch.setattr("eval.hardware.capacity.available_bytes", lambda device: 10**15)
    assert round_inputs(SMALL, CPU, Limits()) == 15
    assert "too large" in capacity.does_not_fit(parse_case(f"m: [{'9' * 19}]; n: [1]; k: [64]; g: 1; seed: 1"), CPU)


# --- verdicts --------------------------------------------------------------------------------------------


def made(kind, seed=3):
    data = SMALL.data(SMALL.generate(seed, kind, CPU), blank(SMALL, CPU))
    return data, group_reference.ref_kernel(data)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_element_is_told_with_its_group(kind):
    data, output = made(kind)
    for judge in judges_of(kind):
        assert judge(SMALL, data, output).ok
        wrong = [part.clone() for part in output]
        row, column, _ = wrong[2].isfinite().nonzero()[-1].tolist()
        wrong[2][row, column] = -60000.0 if wrong[2][row, column] > 0 else 60000.0
        verdict = judge(SMALL, data, wrong)
        name = "group 2 of 3 (M N K = 8 8 64)"
        assert not verdict.ok and verdict.message.startswith(
            f"{name}: 1 of 64 elements differ: at ({row}, {column}, 0)"
        )
        assert verdict.found.record()["output"] == name and verdict.found.at == (row, column, 0)


def test_reports_and_records_have_the_groups():
    result = Result(CASE, rounds_us=[1.0], inputs=1)
    assert (report.shape_text(result), report.columns([result])) == ("40,0,8 16,24,8 128,64,64", PROBLEM.columns)
    assert GroupGemm((5, 5), (6, 6), (64, 64)).text() == "5 6 64 x 2"
    kept = record.case_record(result, "NVIDIA B200")
    assert [kept[key] for key in ("m", "n", "k", "g", "seed", "spec")] == [
        [40, 0, 8],
        [16, 24, 8],
        [128, 64, 64],
        3,
        5,
        CASE.spec,
    ]


# --- submissions ------------------------------------------------------------------------------------------

# Rounds enough that on a busy machine some are not delayed.
LIMITS = Limits(answer_s=300.0, timing_s=0.5, wall_s=0.5, inputs=3, singles=0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../../examples/submission", None),
        ("grouped/groups_by_pointer", r"wrong result \(time_round, .*: group 0 of 3"),
        (
            "grouped/forgets_a_group",
            r"wrong result \(time_round, .*: group 2 of 3 \(M N K = 8 8 64\): .* got 0",
        ),
    ],
)
def test_a_cheat_is_caught_and_an_honest_submission_is_timed(name, reason):
    result = run_benchmark(ADVERSARIAL / f"{name}.py", CASE, CPU, LIMITS)
    if reason is None:
        assert result.passed and len(result.rounds_us) >= 3, result.error
    else:
        assert re.search(reason, result.error), result.error


def test_the_package_is_right(root, library_path):
    case = parse_case("m: [7, 130, 0]; n: [24, 8, 5]; k: [64, 192, 128]; g: 3; seed: 9")
    result = run_test(root / PROBLEM.submission, case, CPU, LIMITS, FULL)
    assert result.passed, result.error
    assert "libcustom_kernel.so" in [library.name for library in result.libraries]
    assert result.backend.startswith("cpu")
