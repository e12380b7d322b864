"""The tables that are generated into the README and its sister pages."""

from __future__ import annotations

import json

from scripts.rounds import commands as rounds
from scripts.rounds import results


def test_a_comparison_without_a_baseline_has_no_row_of_it():
    found = {"chip": "C", "driver": "D", "commit": "0123456789", "median_us": {"auto": {"1x2x3": 10.0}}}
    origin, _, head, _, *rows = results.hopper(found).splitlines()
    assert origin == "C, driver D, commit 0123456:" and "| 1 2 3 | geomean |" in head
    assert rows == ["| **this package** | 10.0 | 10.0 | 1.00 |"]


def test_the_readme_is_checked_or_written(monkeypatch, tmp_path, capsys):
    blocks = "".join(f"<!-- generated:{name} -->old<!-- /generated:{name} -->\nkept\n" for name in ("a", "b"))
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"x": name * 2}))
    (tmp_path / "README.md").write_text(blocks)
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "PAGES", ("README.md",))
    monkeypatch.setattr(results, "BLOCKS", {n: (f"{n}.json", lambda found: f"{found['x']} \\1") for n in ("a", "b")})
    monkeypatch.setattr(results.render, "__defaults__", (tmp_path,))
    assert rounds.main(["results", "--check"]) == 1
    assert "README.md: tables are not current" in capsys.readouterr().err
    assert (tmp_path / "README.md").read_text() == blocks
    assert rounds.main(["results"]) == 0
    written = (tmp_path / "README.md").read_text()
    assert written == "".join(
        f"<!-- generated:{name} -->\n{name * 2} \\1\n<!-- /generated:{name} -->\nkept\n" for name in ("a", "b")
    )
    assert rounds.main(["results", "--check"]) == 0 and capsys.readouterr().err == ""
