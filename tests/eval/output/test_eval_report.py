"""Reports on the terminal."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from eval import evaluation
from eval.cases import parse_case
from eval.hardware import chip
from eval.output import report
from eval.output.origin import Library
from eval.output.record import Given
from eval.sandbox import State
from eval.supervisor import Limits, Result

SPEC = "m: 256; n: 4096; k: 7168; l: 1; seed: 1111"
CASE = parse_case(SPEC)
CPU = torch.device("cpu")
ROUNDS = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0, 5.0]
B200 = "NVIDIA B200"


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.1234, "0.123 us"),
        (1, "1 us"),
        (12.345, "12.3 us"),
        (999.4, "999 us"),
        (999.6, "1 ms"),
        (1000, "1 ms"),
        (123456, "123 ms"),
        (999_400, "999 ms"),
        (999_600, "1 s"),
        (1_234_567, "1.23 s"),
        (999_400_000, "999 s"),
        (1_234_567_000, "1235 s"),
    ],
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


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.423, "0.42"), (0.9964, "0.9964"), (1.0, "1"), (1.0003, "1.0003"), (1.26, "1.3"), (None, "")]
)
def test_an_error_beside_its_limit_is_told_from_it(ratio, text):
    assert report.error_text(ratio) == text


def test_what_a_passing_submission_printed_is_mentioned_and_shown_on_request():
    printed, silent = Result(CASE, printed="hello"), Result(CASE)
    for result in (printed, silent):
        result.checked = 1
    assert "the submission printed something: -v shows it" in report.footer([silent, printed])
    assert "-v" not in report.footer([silent])
    assert "printed: hello" in report.footer([printed], verbose=True)
    assert "-v" not in report.footer([Result(CASE, error="it broke", printed="hello")])


def test_tests_are_listed_with_their_seed_time_and_worst_error(capsys):
    right = Result(CASE, seconds=2.5, worst_error=0.423)
    report.print_tests([right, Result(CASE, error="it broke", seconds=0.03, worst_error=math.inf)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 of 2 tests pass"
    assert lines[1].split() == ["M", "N", "K", "seed", "judged", "in", "error", "/", "tolerance"]
    assert lines[3].split()[3:] == ["1111", "2.5", "s", "0.42", "pass"]
    assert lines[4].split()[3:] == ["1111", "30", "ms", "inf", "FAIL"]
    assert lines[5] == "FAIL 256 4096 7168: it broke"


def test_what_fails_alike_is_told_once(capsys):
    other = parse_case("m: 1; n: 2; k: 64; l: 1; seed: 1")
    report.print_failures(
        [
            Result(CASE, error="it broke", printed="why"),
            Result(other, error="wrong"),
            Result(CASE, error="it broke", printed="why"),
            Result(other, error="it broke", printed="why"),
            Result(CASE, error="it broke", printed="another reason"),
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "FAIL 3 cases (256 4096 7168; 1 2 64): it broke",
        "  submission: why",
        "FAIL 1 2 64: wrong",
        "FAIL 256 4096 7168: it broke",
        "  submission: another reason",
    ]


def test_no_control_character_of_a_submission_reaches_the_terminal(capsys):
    spoiled = Result(CASE, error="\x1b[2Jall pass\r\x9b0m", printed="\x1b]0;title\x07\u202egnp.exe\n\ud800")
    report.print_failures([spoiled])
    report.print_tests([spoiled])
    evaluation.print_report("profile", [Result(CASE, report="\x1b[31m")], "some CPU")
    assert not re.search(r"[^\x20-\x7e\n]", capsys.readouterr().out)


def test_the_lines_of_an_error_pass_for_no_lines_of_the_report(capsys):
    report.print_failures([Result(CASE, error="it broke\n9 of 9 tests pass\nsandbox: all of it")])
    assert capsys.readouterr().out.splitlines()[1:] == ["  9 of 9 tests pass", "  sandbox: all of it"]


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
        "8.71 us",
        "0.57",
        "1 x 3",
    ]
    assert lines[5].split() == ["geometric", "mean", "10", "us"]
    assert lines[6].endswith("; 6 outputs checked")
    assert lines[7] == "speed of light: published with the task"
    assert lines[8].startswith("WARNING: the times of 256 4096 7168 are spread so widely (more than 10 %)")
    assert lines[9] == "SM clock right after a timed round: 1500 to 1700 MHz"
    assert len(lines) == 10


def test_how_much_a_false_clock_could_hide_is_told_where_it_matters(capsys):
    """The rounds' median is 5 us; 0.04 us is less than a hundredth of it."""
    small, large = (Result(CASE, rounds_us=ROUNDS, inputs=1, tolerance_us=us) for us in (0.04, 1.5))
    text = "a false clock of the submission could hide up to 1.5 us a call (30 %)"
    assert text in rows_of(capsys, [small, large], "some CPU")
    assert "false clock" not in "".join(rows_of(capsys, [small], "some CPU"))
    assert (report.case_notes(small), report.case_notes(large)) == ([], [text])


def test_what_did_not_count_is_told_once_for_each_case(capsys):
    result = Result(CASE, rounds_us=ROUNDS, inputs=1, notes=["3 of 9 rounds do not count"])
    lines = rows_of(capsys, [result, result], "some CPU")
    assert lines.count("256 4096 7168: 3 of 9 rounds do not count") == 1
    assert report.case_notes(result) == ["3 of 9 rounds do not count"]


def test_times_that_lie_close_together_need_no_warning(capsys):
    lines = rows_of(capsys, [Result(CASE, rounds_us=[10.0, 11.0, 12.0], inputs=1)], "some CPU")
    assert not any("WARNING" in line for line in lines)


def test_the_first_and_last_lines_say_what_ran_where(monkeypatch):
    monkeypatch.setattr(chip, "name", lambda device: "some CPU")
    monkeypatch.setattr(report.origin, "driver", lambda device: "580.1")
    monkeypatch.setattr(report.origin, "clock_mhz", lambda device: 2500.4)
    monkeypatch.delenv("NVFP4_BACKEND", raising=False)
    given = Given("test", "gemv", Path("x/\x1bs.py"), CPU, "board", 1)
    where = f"\n  on some CPU, driver 580.1, 2500 MHz now; torch {torch.__version__}"
    assert report.header(given) == f"test of x/\\x1bs.py: gemv, backend cpu{where}"
    monkeypatch.setenv("NVFP4_BACKEND", "hopper")
    full = given._replace(data="full", mode="benchmark")
    said = "benchmark of x/\\x1bs.py against b.py: gemv, backend hopper; full data, not the leaderboard's"
    assert report.header(full, Path("b.py")) == said + where
    first = Result(
        CASE, backend="hopper", sandbox=State({"all": "on"}), libraries=[Library("libx.so", "0123456789abcdef")]
    )
    lines = ["backend: hopper", "libraries of its own: libx.so (sha256 0123456789ab)"]
    assert report.footer([first, first]).splitlines() == lines
    weaker = replace(first, sandbox=State({"one": "on"}, ["mounts: no", "Landlock: no"]))
    assert report.footer([weaker, weaker]).splitlines() == [*lines, "the sandbox LACKS mounts: no; Landlock: no"]
    monkeypatch.setenv("NVFP4_SIMULATE", "1")
    assert report.footer([first]).startswith("backend: hopper (on the PTX simulator)\n")
    assert report.footer([replace(first, backend="cpu (AVX2)")]).startswith("backend: cpu (AVX2)\n")
    assert report.footer([Result(CASE)]) == ""


def test_the_sandbox_and_what_a_passing_submission_printed_are_told_on_request():
    results = [
        Result(CASE, sandbox=State({"all": "on"}), printed="hello\n\x1b[2J"),
        Result(CASE, sandbox=State({"all": "on"}), printed="hello\n"),
        Result(CASE, sandbox=State({"all": "on"}), printed="why", error="it broke"),
    ]
    assert report.footer(results, True).splitlines() == ["sandbox: all (on)", "printed: hello", r"printed: \x1b[2J"]
    assert "hello" not in report.footer(results)


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
        "1",
        "x",
        "3",
    ]
    assert [word for word in ("single call", "speed of light", "ratio") if word in lines[1]] == []
    assert lines[4].split() == ["256", "4096", "7168", "FAIL"]
    assert not any("geometric" in line or "SM clock" in line for line in lines)
    assert "speed of light: not known for this chip; on a CPU `./nvfp4 bench cpu` compares with torch" in lines
    assert lines[-1] == "FAIL 256 4096 7168: it broke"


@pytest.mark.parametrize(
    ("mode", "text"),
    [("test", "1 of 1 tests pass"), ("profile", "256 4096 7168\nthe profile"), ("leaderboard", "median time")],
)
def test_each_mode_prints_its_report(capsys, mode, text):
    evaluation.print_report(mode, [Result(CASE, rounds_us=ROUNDS, inputs=1, report="the profile")], "some CPU")
    assert text in capsys.readouterr().out


def test_a_failed_profile_is_told(capsys):
    evaluation.print_report("profile", [Result(CASE, error="it broke")], "some CPU")
    assert "FAIL 256 4096 7168: it broke" in capsys.readouterr().out


def test_progress_counts_cases_and_not_their_parts(capsys):
    step = report.progress("test", 2)
    step("first")
    step("first", "1 pair")
    step("second")
    assert capsys.readouterr().err == "test 1/2: first\ntest 1/2: first: 1 pair\ntest 2/2: second\n"


def test_the_median_of_a_result_is_its_rounds():
    assert Result(CASE, rounds_us=[3.0, 1.0, 9.0, 2.0]).median_us == statistics.median([3.0, 1.0, 9.0, 2.0]) == 2.5
    assert Result(CASE).passed and not Result(CASE, error="x").passed
    assert Limits() == Limits(180.0, 10.0, 120.0, 200, 50, 10)
