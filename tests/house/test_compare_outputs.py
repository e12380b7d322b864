"""The comparison of two commits' outputs: what a person sees of a change, and its exit status."""

from __future__ import annotations

from scripts import compare_outputs
from scripts.compare_outputs import difference


def test_changed_lines_are_shown_under_their_title_and_equal_outputs_are_not():
    base = {"make -n build": "gcc -O3 a.c\nld a.o\n", "./nvfp4": "usage\n", "old": "x\n"}
    other = {"make -n build": "gcc -O2 a.c\nld a.o\n", "./nvfp4": "usage\n", "new": "y\n"}
    lines = difference(base, other)
    assert [line for line in lines if not line.startswith("@@")] == [
        *("== make -n build", "-gcc -O3 a.c", "+gcc -O2 a.c"),
        *("== only at BASE: old", "-x", "== not at BASE: new", "+y"),
    ]


def test_the_exit_status_says_whether_an_output_differs(monkeypatch, capsys):
    monkeypatch.setattr(compare_outputs, "Checkout", lambda commit, folder: commit)
    monkeypatch.setattr(compare_outputs, "PROBES", {"make": lambda commit: iter([("make help", commit)])})
    assert compare_outputs.main(["a", "a", "--probes", "make"]) == 0
    assert compare_outputs.main(["a", "b", "--probes", "make"]) == 1
    assert "+b" in capsys.readouterr().out
