"""The leaderboard's protocol in parts: exit codes, lines, the descriptor, the secret seed."""

from __future__ import annotations

import base64
import contextlib
import os
import re

import pytest
import torch

from eval import evaluation
from eval.cases import parse_case
from eval.output import protocol
from eval.output.protocol import DescriptorError, Protocol, hidden_from_children, secret_seed
from eval.supervisor import Result

SPEC = "m: 256; n: 4096; k: 7168; l: 1; seed: 1111"
CASE = parse_case(SPEC)
CPU = torch.device("cpu")


def test_exit_codes_are_the_leaderboards():
    assert (protocol.EXIT_OK, protocol.EXIT_USAGE, protocol.EXIT_FAILED, protocol.EXIT_BAD_CASES) == (0, 2, 112, 113)
    assert protocol.EXIT_NO_DESCRIPTOR == 111


def test_a_line_is_there_as_soon_as_it_is_logged_and_is_one_line():
    read, write = os.pipe()
    out = Protocol(str(write))
    with out._file, os.fdopen(read, "rb", buffering=0) as pipe:
        out.log("first", 1)
        assert pipe.read(100) == b"first: 1\n"
        out.log("text", "one\ntwo\r\nthree\n\u00e9")
        assert pipe.read(100).decode() == "text: one / two / three / \u00e9\n"
        out.log("spoilt", "\x1b[2J\ud800\x00")
        assert pipe.read(100) == rb"spoilt: \x1b[2J\ud800\x00" + b"\n"
        out.log("empty", "")
        assert pipe.read(100) == b"empty: \n"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(write)


@pytest.mark.parametrize("descriptor", ["", "abc", "999", "-1", "1.5", "+1", " 1"])
def test_what_is_no_descriptor_is_told(descriptor):
    with pytest.raises(DescriptorError, match=re.escape(f"POPCORN_FD is '{descriptor}': ")):
        Protocol(descriptor)


def test_a_descriptor_that_cannot_be_written_to_is_told():
    read, write = os.pipe()
    try:
        Protocol(str(write))._file.close()
        with pytest.raises(DescriptorError):
            Protocol("9" * 9)
        with pytest.raises(DescriptorError, match=r"^POPCORN_FD is '\d+': open for reading only$"):
            Protocol(str(read))
        os.fstat(read)  # it stays the caller's
    finally:
        os.close(read)


def test_a_pipe_that_no_process_reads_is_told():
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(DescriptorError, match="its other end is closed"):
        Protocol(str(write))
    os.close(write)


def test_a_reader_that_goes_loses_lines_and_no_more():
    read, write = os.pipe()
    out = Protocol(str(write))
    with contextlib.suppress(BrokenPipeError), out._file:
        out.log("first", 1)
        assert out.broken is None
        os.close(read)
        out.log("second", 2)
        out.log("third", 3)
        assert isinstance(out.broken, BrokenPipeError)


def test_a_descriptor_closed_at_the_start_stays_refused(monkeypatch):
    read, write = os.pipe()
    os.close(write)
    monkeypatch.setattr(protocol, "_closed_at_start", None)
    monkeypatch.setenv("POPCORN_FD", str(write))
    protocol.note_descriptor()
    assert os.dup2(read, write) == write  # some library's
    with pytest.raises(DescriptorError, match="not open"):
        Protocol(str(write))
    os.close(read)
    os.close(write)


@pytest.mark.parametrize(("text", "seed"), [(None, None), ("", None), ("0", 0), ("-3", -3), ("12345", 12345)])
def test_the_secret_seed_is_an_integer_if_it_is_set(monkeypatch, text, seed):
    monkeypatch.delenv("POPCORN_SEED", raising=False)
    if text is not None:
        monkeypatch.setenv("POPCORN_SEED", text)
    assert secret_seed() == seed


@pytest.mark.parametrize("text", ["x", "1.0", "1e3", "9" * 5000, "\u0661"])
def test_a_seed_that_is_no_ordinary_integer_is_told_in_short(monkeypatch, text):
    monkeypatch.setenv("POPCORN_SEED", text)
    with pytest.raises(ValueError, match=r"^POPCORN_SEED is '.*'; expected an integer of at most 19 digits$") as error:
        secret_seed()
    assert len(str(error.value)) < 200
    monkeypatch.setenv("POPCORN_FD", "9" * 5000)
    with pytest.raises(DescriptorError) as error:
        Protocol(os.environ["POPCORN_FD"])
    assert len(str(error.value)) < 200


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
    evaluation.log_result(out, "leaderboard", "benchmark.3", Result(CASE, rounds_us=ROUNDS))
    assert [key for key, _ in out.lines] == [
        f"benchmark.3.{name}" for name in ("runs", "mean", "std", "err", "best", "worst")
    ]
    assert [value for _, value in out.lines] == pytest.approx([9, 5000, 2000, 2000 / 3, 2000, 9000])


@pytest.mark.parametrize("mode", ["test", "benchmark", "leaderboard", "profile"])
def test_the_lines_of_a_failure(mode):
    out = Lines()
    evaluation.log_result(out, mode, "test.1", Result(CASE, error="it broke", rounds_us=[1.0], report="x"))
    assert out.lines == [("test.1.status", "fail"), ("test.1.error", "it broke")]


def test_the_lines_of_a_test_and_a_profile():
    out = Lines()
    evaluation.log_result(out, "test", "test.0", Result(CASE))
    evaluation.log_result(out, "profile", "benchmark.2", Result(CASE, report="t\u00e4ble\nof times"))
    assert out.lines[0] == ("test.0.status", "pass")
    assert out.lines[1][0] == "benchmark.2.report"
    assert base64.b64decode(out.lines[1][1]).decode() == "t\u00e4ble\nof times"
