"""The GEMM and the GEMV in the harness: whose case a line is, data, floors, verdicts, and a few cheats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from eval import command
from eval.cases import CasesError, parse_case, read_cases
from eval.hardware import chip
from eval.supervisor import Limits, run_benchmark, run_test
from reference import nvfp4, product_reference
from reference.problems import DEFAULT, gemm, gemv
from reference.problems.gemm import Gemm
from reference.problems.gemv import Gemv
from reference.problems.interface import BOARD, FULL, blank

CPU = torch.device("cpu")
ADVERSARIAL = Path(__file__).resolve().parents[1] / "adversarial"
PROBLEMS = (gemm.PROBLEM, gemv.PROBLEM)


# --- cases -----------------------------------------------------------------------------------------------


def test_the_case_files_are_the_leaderboards(root):
    expected = {
        "gemm": (
            "128 256 256,128 1536 7168,128 3072 1536,256 7168 256,256 7168 2048,2304 4608 7168,384 7168 2304,"
            "512 512 7168,512 4096 512,512 1536 7168",
            "128 7168 16384,128 4096 7168,128 7168 2048",
        ),
        "gemv": (
            "128 256,128 1536,128 3072,256 7168,256 7168,2432 4608 x 2,384 7168 x 2,512 512 x 2,512 4096 x 2,"
            "512 1536 x 2",
            "7168 16384,4096 7168 x 8,7168 2048 x 4",
        ),
    }
    for problem in PROBLEMS:
        texts = expected[problem.name]
        for name, text in zip(("test", "benchmark"), texts, strict=True):
            cases = read_cases(root / problem.cases / f"{name}.txt")
            assert ",".join(case.shape.text() for case in cases) == text and {case.seed for case in cases} == {1111}
            assert all(case.problem is problem for case in cases)
        assert {case.shape for case in cases} == set(problem.published_us["B200"])


def test_a_line_without_n_is_the_gemvs_and_a_tie_goes_to_the_submission(tmp_path, capsys):
    assert parse_case("m: 40; k: 64; l: 2; seed: 7").shape == Gemv(40, 64, 2)
    with pytest.raises(CasesError, match="k is 96; expected a multiple of 64"):
        parse_case("m: 40; k: 96; l: 2; seed: 7")
    cases, submission = tmp_path / "cases.txt", tmp_path / "submission.py"
    cases.write_text("m: 40; n: 8; k: 64; l: 2; seed: 7")
    chosen = command.parse_arguments(["test", str(cases)]).problem
    assert chosen is DEFAULT
    for text, problem in (("#!POPCORN leaderboard nvfp4_gemm\n", gemm.PROBLEM), ("#!POPCORN gpu B200\n", DEFAULT)):
        submission.write_text(text)
        given = ["test", str(cases), "--submission", str(submission)]
        assert command.parse_arguments(given).problem is problem
        assert command.parse_arguments([*given, "--problem", "nvfp4_dual_gemm"]).problem is DEFAULT
    submission.write_text("#!POPCORN leaderboard nvfp4_gemv\n")
    with pytest.raises(SystemExit, match="2"):
        command.parse_arguments(given)
    assert "submission.py says that it is for gemv, and" in (said := capsys.readouterr().err), said
    assert command.parse_arguments([*given, "--problem", "dual_gemm"]).problem is DEFAULT


@pytest.mark.parametrize("name", ["gemm", "nvfp4_gemm", "gemv", "nvfp4_gemv"])
def test_a_problem_is_named_as_its_folder_or_its_leaderboard(name, root):
    options = command.parse_arguments(["benchmark", "--problem", name])
    assert options.problem is PROBLEMS["gemv" in name]
    assert options.cases == root / "reference/problems" / name.removeprefix("nvfp4_") / "benchmark.txt"


# --- data, reference and floors --------------------------------------------------------------------------


def codes_and_scales(shape):
    a, b, sfa, sfb, permuted_a, permuted_b = shape.generate(3, BOARD, CPU)
    for rows, plain, permuted in ((shape.m, sfa, permuted_a), (shape.b_rows, sfb, permuted_b)):
        back = nvfp4.from_blocked(permuted, rows, shape.k // 16)
        assert torch.equal(back.view(torch.uint8), plain.view(torch.uint8))
    return [set(x.view(torch.uint8).flatten().tolist()) for x in (a, b)], [
        set(x.float().flatten().tolist()) for x in (sfa, sfb)
    ]


def test_the_data_is_the_leaderboards():
    """As its generators draw it: bytes of codes, then integers as scale factors."""
    codes, scales = codes_and_scales(Gemm(130, 136, 256, 2))
    assert codes == [set(range(256))] * 2 and scales == [{0.0, 1.0, 2.0, 3.0}] * 2
    codes, scales = codes_and_scales(Gemv(40, 256, 2))
    assert codes == [{0, 1, 2, 3}] * 2 and scales == [{0.0, 1.0, 2.0}] * 2


def filled(shape, a_bytes, b_bytes, a_scale, b_scale):
    """Data with one byte in each row of codes and one scale factor in each row."""
    inputs = shape.generate(1, BOARD, CPU)
    for codes, rows in ((inputs[0], a_bytes), (inputs[1], b_bytes)):
        codes.view(torch.uint8).copy_(torch.tensor(rows, dtype=torch.uint8).view(-1, 1, 1).expand(codes.shape))
    for scales, value in ((inputs[2], a_scale), (inputs[3], b_scale)):
        scales.copy_(torch.tensor(value).to(scales.dtype).expand(scales.shape))
    return shape.data(inputs, blank(shape, CPU))


def test_the_reference_by_hand():
    # 0x21 is 0.5 and 1 along K, 0x42 is 1 and 2, 0xA0 is 0 and -1.
    data = filled(Gemm(2, 2, 64, 2), [0x21, 0xA0], [0x42, 0x21], 2.0, 1.5)
    by_hand = torch.tensor([[32 * (0.5 + 2), 32 * (0.25 + 1)], [32 * -2.0, 32 * -1.0]]) * 3.0
    for got in (product_reference.ref_kernel(data), product_reference.oracle_with_error(data).value):
        assert got.shape == (2, 2, 2) and all(torch.equal(got[..., i].float(), by_hand) for i in (0, 1))
    bound = product_reference.oracle_with_error(data, 1.0).fp32_error[..., 0]
    assert torch.allclose(bound.float(), by_hand.abs() * 2.0**-23)
    data = filled(Gemv(2, 64, 1), [0x21, 0xA0], [0x42] + [0x77] * 127, 2.0, 1.0)
    for got in (product_reference.ref_kernel(data), product_reference.oracle_with_error(data).value):
        assert got.shape == (2, 1, 1) and got.flatten().tolist() == [160.0, -128.0]


def test_a_gemv_reads_one_row_of_b_and_has_all_of_them():
    shape = Gemv(40, 192, 2)
    assert shape.record() == {"m": 40, "k": 192, "l": 2} and shape.output().memory == (2, 40, 1)
    assert [block.memory for block in shape.inputs()] == [
        (2, 40, 96), (2, 128, 96), (2, 40, 12), (2, 128, 12), (2, 1, 3, 32, 4, 4), (2, 1, 3, 32, 4, 4),
    ]  # fmt: skip
    assert shape.work() == (2 * 40 * 192, 2 * 41 * (96 + 12), 2 * 2 * 40)
    assert Gemm(40, 72, 192, 2).work() == (2 * 40 * 72 * 192, 2 * 112 * (96 + 12), 2 * 2 * 40 * 72)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_published_times_are_the_memory_floors_at_the_boards_rate(problem):
    for shape, us in problem.published_us["B200"].items():
        flops, traffic = chip.work(shape)
        assert max(traffic / 7.68e12, flops / 6.90e15) * 1e6 == pytest.approx(us, rel=0.01)
        assert chip.speed_of_light(shape, "NVIDIA B200") == (us, "published with the task")


# --- submissions -----------------------------------------------------------------------------------------

LIMITS = Limits(answer_s=300.0, timing_s=0.5, wall_s=0.5, inputs=3, singles=0)
SMALL = {"gemm": parse_case("m: 40; n: 24; k: 128; l: 2; seed: 5", problem=gemm.PROBLEM)}
SMALL["gemv"] = parse_case("m: 400; k: 512; l: 2; seed: 5")  # longer than the harness takes for a call


@pytest.mark.parametrize(
    ("name", "problem", "reason"),
    [
        ("../../../examples/submission", "gemm", None),
        ("../../../examples/submission", "gemv", None),
        ("product_by_pointer", "gemv", r"wrong result \(time_round"),
        ("forgets_a_batch", "gemm", r"wrong result \(time_round, .* got 0"),
        ("sums_padding", "gemv", "wrong result"),
        ("assumes_even_codes", "gemm", "wrong result"),
    ],
)
def test_a_cheat_is_caught_and_an_honest_submission_is_timed(name, problem, reason):
    for _ in range(3):  # other tests keep the machine busy
        result = run_benchmark(ADVERSARIAL / "product" / f"{name}.py", SMALL[problem], CPU, LIMITS)
        if "not measured" not in (result.error or ""):
            break
    if reason is None:
        assert result.passed and len(result.rounds_us) >= 3, result.error
        assert result.inputs == (1 if problem == "gemv" else 3), "the gemv's leaderboard times single calls"
    else:
        assert re.search(reason, result.error), result.error


def test_what_the_boards_data_leaves_out_full_data_has():
    path = ADVERSARIAL / "product" / "assumes_even_codes.py"
    assert run_test(path, SMALL["gemv"], CPU, LIMITS).passed
    assert "wrong result" in run_test(path, SMALL["gemv"], CPU, LIMITS, FULL).error


@pytest.mark.parametrize("name", SMALL)
def test_the_package_is_right(root, library_path, name):
    result = run_test(root / SMALL[name].problem.submission, SMALL[name], CPU, LIMITS, FULL)
    assert result.passed, result.error
    assert result.backend.startswith("cpu")
