"""The time of a bundle's first import: an empty cache first, a filled one after it, medians."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.bench import first_import


def test_first_imports_have_an_empty_cache_and_later_ones_a_filled_one(monkeypatch, tmp_path, capsys):
    seen, times = [], iter(range(1, 100))

    def timed_import(bundle, cache):
        seen.append(("\n_SOURCES[" in bundle.read_text(), cache.parent == bundle.parent, cache.exists()))
        cache.mkdir(exist_ok=True)
        return {"wall_s": float(next(times)), "cpu_s": 0.5}

    monkeypatch.setattr(first_import, "timed_import", timed_import)
    monkeypatch.setattr(first_import, "has_compiler", lambda target: target == "cpu")
    assert first_import.main(["--repeats", "3", "--json", str(tmp_path / "x.json")]) == 0
    assert seen == [(True, True, False), (True, True, True)] * 3
    written = json.loads((tmp_path / "x.json").read_text())
    assert written["repeats"] == 3 and written["processor"] and written["torch"]
    assert written["targets"] == {
        "cpu": {"first": {"wall_s": 3.0, "cpu_s": 0.5}, "later": {"wall_s": 4.0, "cpu_s": 0.5}}
    }
    assert "3.0" in capsys.readouterr().out


def test_an_import_is_timed_with_all_its_processes(tmp_path):
    (tmp_path / "submission.py").write_text(
        "import os, subprocess, sys, time\n"
        "open(os.environ['NVFP4_CACHE'], 'w').close()\n"
        "busy = 'import time\\nend = time.process_time() + 0.4\\nwhile time.process_time() < end: pass'\n"
        "subprocess.run([sys.executable, '-c', busy])\ntime.sleep(0.3)\n"
    )
    taken = first_import.timed_import(tmp_path / "submission.py", tmp_path / "cache")
    assert taken["wall_s"] > 0.7 and taken["cpu_s"] > 0.4 and Path(tmp_path / "cache").exists()
