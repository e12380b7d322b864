"""Full data: every code and scale factor, NaNs included, and a verdict that fp32's own rounding does not spoil."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from eval import evaluation
from eval.cases import parse_case, read_cases
from eval.judge import codes_never_seen, judge_full, judges_of
from eval.supervisor import Limits, run_test
from reference.problems import PROBLEMS
from reference.problems.dual_gemm import PROBLEM, DualGemm
from reference.problems.interface import BOARD, FULL, KINDS, blank, parts
from reference.reference import check_against_oracle, generate_input, ref_kernel

CPU = torch.device("cpu")
ADVERSARIAL = Path(__file__).resolve().parents[1] / "adversarial"


def full_input(m, n, k, batches, seed, device, kind=FULL):
    shape = DualGemm(m, n, k, batches)
    return shape.data(shape.generate(seed, kind, device), torch.empty(batches, m, n).half().permute(1, 2, 0))


def test_full_data_holds_every_code_and_every_scale_factor():
    data = full_input(96, 128, 1024, 2, 7, CPU)
    for codes in data[:3]:
        assert set(codes.view(torch.uint8).flatten().tolist()) == set(range(256))
    for scales in data[3:6]:
        raw = scales.view(torch.uint8).flatten().tolist()
        assert set(range(256)) == set(raw), "magnitudes from zero and subnormals to NaN, of either sign"


def test_the_permuted_scale_factors_hold_the_same():
    data = full_input(130, 70, 192, 2, 7, CPU)
    for rows, plain, permuted in zip((130, 70, 70), data[3:6], data[6:9], strict=True):
        for row, group, batch in ((0, 0, 0), (rows - 1, 11, 1), (5, 7, 1)):
            place = (row % 32, row % 128 // 32, row // 128, group % 4, group // 4, batch)
            assert permuted.view(torch.uint8)[place] == plain.view(torch.uint8)[row, group, batch]


def test_a_seed_gives_the_same_and_most_outputs_are_numbers():
    first, again = (full_input(128, 160, 256, 1, 9, CPU) for _ in range(2))
    assert all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(first[:9], again[:9], strict=True))
    nan = ref_kernel(first).isnan()
    assert 0.01 < nan.float().mean() < 0.3
    assert nan.all(dim=1).any() and nan.all(dim=0).any(), "a whole row and a whole column"
    assert not full_input(1, 1, 64, 1, 9, CPU)[3].isnan().any(), "a single element stays a number"


def test_each_kind_has_its_generator_and_its_judges():
    assert KINDS == ("board", "full")
    shape = DualGemm(4, 5, 64, 1)
    drawn, given = shape.generate(9, BOARD, CPU), generate_input(*shape, 9, device=CPU)
    assert all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(drawn, given[:-1], strict=True))
    assert [judge.__name__ for judge in judges_of("board")] == ["judge_as_board", "judge_fresh"]
    assert [judge.__name__ for judge in judges_of("full")] == ["judge_full"] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_is_right_and_one_wrong_element_is_not(kind):
    data = full_input(40, 72, 128, 1, 3, CPU, kind)
    shape = DualGemm(40, 72, 128, 1)
    for judge in judges_of(kind):
        output = ref_kernel(data)
        verdict = judge(shape, data, output)
        assert verdict.ok and verdict.message == "" and verdict.found.worst <= 1, verdict
        finite = output.isfinite().nonzero()[-1].tolist()
        output[tuple(finite)] = 60000.0 if output[tuple(finite)] < 0 else -60000.0
        verdict = judge(shape, data, output)
        assert not verdict.ok and verdict.found.wrong == 1 and verdict.found.at == tuple(finite)
        assert f"in row {finite[0]}, column {finite[1]}" in verdict.message


TILED = {
    "dual_gemm": "m: 300; n: 72; k: 128; l: 2; seed: 1",
    "gemm": "m: 300; n: 72; k: 128; l: 1; seed: 1",
    "gemv": "m: 300; k: 128; l: 2; seed: 1",
    "group_gemm": "m: [40, 0, 300]; n: [72, 8, 24]; k: [128, 64, 192]; g: 3; seed: 1",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TILED)
def test_some_rows_of_a_case_are_a_case_of_their_own(name, kind):
    """Of 300 rows the third tile has 44; a wrong element is seen where it is, and nowhere else."""
    shape = parse_case(TILED[name], problem=PROBLEMS[name]).shape
    inputs, fresh = shape.generate(5, kind, CPU), judges_of(kind)[1]
    output = shape.problem.reference(shape.data(inputs, blank(shape, CPU)))
    parts(output)[-1][290] = 60000.0
    for tile, rows, right in ((0, 128, True), (1, 128, True), (2, 44, False)):
        sub, tensors, part = shape.tile(inputs, output, lambda count, tile=tile: min(tile, 1) if count == 2 else tile)
        if name == "group_gemm" and tile == 0:
            rows = 40
        assert parts(part)[0].shape[0] == rows, "of the last group that has as many tiles"
        assert fresh(sub, sub.data(tensors, blank(sub, CPU)), part).ok == right


@pytest.mark.parametrize(("name", "unseen"), [("dual_gemm", [2.0, 3.0, 4.0, 6.0]), ("gemm", [])])
def test_the_codes_that_the_leaderboards_data_lack_are_known(name, unseen):
    assert codes_never_seen(parse_case(TILED[name], problem=PROBLEMS[name]).shape) == unseen


def test_a_fresh_inputs_cancelled_sum_is_right_and_the_boards_is_not(monkeypatch):
    """Fresh inputs pass if float64 and the usual rounding explain the output."""
    from eval import judge

    data = generate_input(8, 8, 64, 1, 3, device=CPU)
    output = ref_kernel(data)
    output[0, 0, 0] += 1.0
    asked = []
    oracle = PROBLEM.oracle
    problem = replace(PROBLEM, oracle=lambda data, roundings: asked.append(roundings) or oracle(data, roundings))
    monkeypatch.setattr(judge, "compare_with_oracle", lambda got, oracle: (True, ""))
    shape = SimpleNamespace(problem=problem, output_name=lambda index: "")
    assert judge.judge_fresh(shape, data, output).ok and asked == [1.0]
    assert not judge.judge_as_board(shape, data, output).ok


def test_the_cases_of_full_data_have_edges_of_k(root):
    cases = read_cases(root / PROBLEM.cases / "full.txt")
    assert {64, 192, 320, 7168, 16384} <= {case.shape.k for case in cases}
    assert any(case.shape == (1, 1, 64, 1) for case in cases) and any(case.shape.l > 1 for case in cases)


@pytest.mark.parametrize("index", [0, 4])
def test_the_package_is_right_on_full_data(root, library_path, index):
    case = read_cases(root / PROBLEM.cases / "full.txt")[index]
    result = run_test(root / "submission" / "submission.py", case, CPU, Limits(answer_s=300.0), "full")
    assert result.passed, result.error
    assert result.data == "full" and re.match(r"cpu \(\S.*, \d+ threads, ", result.backend)
    assert library_path.name in [library.name for library in result.libraries]


def test_a_decoder_of_the_leaderboards_codes_alone_fails_on_full_data():
    case = parse_case("m: 40; n: 72; k: 128; l: 1; seed: 1111")
    submission = ADVERSARIAL / "odd" / "knows_small_codes.py"
    result = run_test(submission, case, CPU, Limits(answer_s=300.0), "full")
    assert result.error.startswith("wrong result") and result.wrong["elements"] > 100
    # In this process: the same kernel passes on the leaderboard's data.
    data = generate_input(*case.shape, 5, device=CPU)
    assert all(torch.equal(x.view(torch.uint8) & 0xBB, x.view(torch.uint8)) for x in data[:3])


def test_a_nan_that_is_missing_is_wrong():
    data = full_input(64, 64, 64, 1, 11, CPU)
    output = ref_kernel(data)
    assert check_against_oracle(data, output)[0]
    assert not judge_full(DualGemm(64, 64, 64, 1), data, output.nan_to_num(0.0)).ok


@pytest.mark.parametrize(
    ("m", "mode", "minutes"), [(256, "benchmark", []), (4096, "benchmark", ["6"]), (4096, "test", [])]
)
def test_a_long_judgment_against_float64_is_told_before(monkeypatch, m, mode, minutes):
    """A core takes 2.4 s an output for 256 rows, 27.5 s for 4096; a benchmark makes at least 12 outputs, a test 2."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    case = parse_case(f"m: {m}; n: 4096; k: 7168; l: 1; seed: 1111")
    said = evaluation.long_wait([case], CPU, mode, Limits(inputs=3))
    assert re.findall(r"at least (\d+) minutes", said) == minutes and bool(said) == bool(minutes)
    assert evaluation.long_wait([case], torch.device("cuda"), mode, Limits(inputs=3)) == ""
