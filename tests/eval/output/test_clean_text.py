"""Text that others wrote is shown as text; a log is read by its tail, whatever it claims to be."""

from __future__ import annotations

import os
import tempfile
import time

import pytest

from eval.output.text import clean, shortened, tail_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with\ttabs\nand lines", "plain, with\ttabs\nand lines"),
        ("Größe µs ≤ 5 \u4e2d", "Größe µs ≤ 5 \u4e2d"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("a\rb\r\nc", "a\\x0db\nc"),
        ("\x7f\x80\x9b", r"\x7f\x80\x9b"),
        ("\u202egnp.exe\u2066\u200b\ufeff", r"\u202egnp.exe\u2066\u200b\ufeff"),
        ("\u2028\u2029\x0b\x0c\x85", r"\u2028\u2029\x0b\x0c\x85"),
        ("\ud800 \udcff", r"\ud800 \udcff"),
        ("\U000e0041\U000f0000", r"\U000e0041\U000f0000"),
        ("\0" * 1000 + "x\0", r"\x00x\x00"),
    ],
)
def test_what_a_terminal_would_act_on_is_written_out(text, shown):
    assert clean(text) == shown
    assert clean(text).encode() and clean(clean(text)) == shown


def test_a_long_text_keeps_its_ends():
    assert shortened("x" * 4000) == "x" * 4000
    short = shortened("begin" + "x" * 10000 + "end", 100)
    assert short.startswith("beginxxx") and short.endswith("xxxend") and len(short) < 200
    assert "[... 9908 characters ...]" in short


def test_a_log_is_read_by_its_last_whole_lines():
    with tempfile.TemporaryFile() as file:
        file.write(b"".join(b"line %d\n" % i for i in range(100_000)))
        file.flush()
        tail = tail_of(file.fileno())
        assert tail.splitlines()[-1] == "line 99999" and tail.startswith("line ") and len(tail) <= 1 << 16
        file.truncate(0)
        assert tail_of(file.fileno()) == ""


def test_a_sparse_log_of_a_terabyte_takes_no_time():
    with tempfile.TemporaryFile() as file:
        os.ftruncate(file.fileno(), 1 << 40)
        os.pwrite(file.fileno(), b"\nthe end\xff", (1 << 40) - 9)
        begin = time.process_time()  # reading all of it would take minutes of it
        assert tail_of(file.fileno()).splitlines()[-1] == "the end\ufffd"
        assert time.process_time() - begin < 1
