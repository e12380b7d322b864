"""The harness's parts that need no worker: case files, statistics, floors, the report."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.cases import CasesError, mixed_seed, parse_case, read_cases
from eval.hardware import chip
from eval.output import report
from eval.stats import relative_spread, summarise
from eval.supervisor import Result, _steady
from reference.problems.dual_gemm import PROBLEM, DualGemm

BENCHMARKS = {(256, 4096, 7168, 1), (512, 4096, 7168, 1), (256, 3072, 4096, 1), (512, 3072, 7168, 1)}


def test_the_case_files_are_the_leaderboards(root):
    tests = read_cases(root / "reference/problems/dual_gemm/test.txt")
    assert [case.shape[:3] for case in tests] == [
        (1536, 512, 7168),
        (256, 512, 256),
        (1536, 512, 7168),
        (3072, 1024, 1536),
        (7168, 1024, 256),
        (7168, 2304, 2048),
        (4608, 384, 7168),
        (7168, 384, 2304),
        (512, 768, 7168),
        (4096, 768, 512),
    ]
    assert {case.shape for case in read_cases(root / "reference/problems/dual_gemm/benchmark.txt")} == BENCHMARKS
    assert all(case.seed == 1111 for case in tests)


@given(st.lists(st.integers(1, 10**6), min_size=3, max_size=3), st.integers(0, 2**31))
def test_a_spec_round_trips(values, seed):
    m, n, groups = values
    case = parse_case(f"m: {m}; n: {n}; k: {64 * groups}; l: 2; seed: {seed}")
    assert case[:2] == ((m, n, 64 * groups, 2), seed)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("m 1", "is not `name: integer`"),
        ("m: 1; m: 2; n: 1; k: 64; l: 1; seed: 1", "'m' is repeated"),
        ("m: 1; n: 1; k: 64; l: 1; seed: 1; q: 2", "'q' is unknown"),
        ("m: 0; n: 1; k: 64; l: 1; seed: 1", "m is 0; expected at least 1"),
        ("m: 1; n: 1; k: 96; l: 1; seed: 1", "k is 96; expected a multiple of 64"),
        ("m: 1; n: 1; k: 64; l: 1; seed: -1", "seed is -1"),
        ("m: 1; n: 1; k: 64", "no value for l, seed"),
    ],
)
def test_a_bad_spec_says_what_is_wrong(line, text):
    with pytest.raises(CasesError, match=text):
        parse_case(line)


def test_the_secret_seed_is_paired_with_the_cases():
    assert mixed_seed(5, None) == 5
    assert mixed_seed(5, 0) == 5 + 5 * 6 // 2
    assert mixed_seed(1111, 42) == 1111 + 1153 * 1154 // 2


def test_summary_of_known_samples():
    figures = summarise([1.0, 2.0, 3.0, 4.0])
    assert (figures.runs, figures.mean, figures.best, figures.worst) == (4, 2.5, 1.0, 4.0)
    assert figures.std == pytest.approx((5 / 3) ** 0.5)
    assert figures.err == pytest.approx(figures.std / 2)
    assert summarise([7.0]).std == 0


def test_spread_ignores_an_outlier():
    assert relative_spread([10.0] * 9 + [1000.0]) == 0
    assert relative_spread([9.0, 10.0, 11.0, 10.0, 9.0, 11.0]) == pytest.approx(0.075)


def test_the_published_speed_of_light_follows_from_bytes_and_operations():
    for shape, published in PROBLEM.published_us["B200"].items():
        flops, traffic = chip.work(shape)
        assert max(flops / 6.90e15, traffic / 7.68e12) * 1e6 == pytest.approx(published, rel=0.01)
        assert chip.speed_of_light(shape, "NVIDIA B200").us == published
    assert set(PROBLEM.published_us["B200"]) == BENCHMARKS


def test_other_chips_get_the_larger_floor_and_unknown_ones_none():
    floor = chip.speed_of_light(DualGemm(256, 4096, 7168, 1), "NVIDIA H200")
    assert floor.us == pytest.approx(30.06e9 / 989.5e12 * 1e6, rel=0.01)
    assert "H200" in floor.basis
    assert chip.speed_of_light(DualGemm(256, 4096, 7168, 1), "NVIDIA T4") is None


def test_the_stop_rule_wants_rounds_time_and_precision():
    assert not _steady([1e6, 1e6], 1)
    assert _steady([1e6, 1e6, 1e6], 1)
    assert not _steady([1.0, 1.0, 1.0], 1)
    assert not _steady([1e6, 1.1e6, 0.9e6], 1)


def test_tables_align_and_name_failures(capsys):
    case = parse_case("m: 256; n: 4096; k: 7168; l: 1; seed: 1111")
    report.print_benchmarks([Result(case, rounds_us=[10.0, 11.0, 12.0], inputs=50, clock_mhz=1500.0)], "NVIDIA B200")
    text = capsys.readouterr().out
    assert "11 us" in text
    assert "2.34" in text  # 11 / 4.708
    assert "1500" in text
    report.print_tests([Result(case), Result(case, error="wrong result")])
    text = capsys.readouterr().out
    assert "1 of 2 tests pass" in text
    assert "FAIL 256 4096 7168: wrong result" in text
