"""The cost model's counters without a simulator: which calls they make, and what they keep of the answers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from scripts.cost_model import counters

SHAPES = ["256x4096x7168", "512x4096x7168", "256x3072x4096", "512x3072x7168"]
LIBRARY = Path("/some/library.so")


@pytest.fixture(autouse=True)
def nothing_remembered():
    for remembered in (counters.counters, counters.checked):
        remembered.cache_clear()
    yield
    for remembered in (counters.counters, counters.checked):
        remembered.cache_clear()


def test_a_simulation_is_a_process_with_its_settings(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("NVFP4_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NVFP4_OTHER", "kept")
    script = (
        "import json, os, sys\n"
        "json.dump({k: v for k, v in os.environ.items() if k.startswith(('NVFP4', 'PYTHONPATH'))},"
        " open(os.environ['NVFP4_SIMULATE_JSON'], 'w'))\nprint(sys.argv[1:], os.getcwd())"
    )
    report, printed = counters.simulate(["-c", script, "x"], "hopper", "f64", LIBRARY, NVFP4_SIMULATE_MODE="late")
    del report["NVFP4_SIMULATE_JSON"]
    wanted = {"NVFP4_SIMULATE": "1", "NVFP4_BACKEND": "hopper", "NVFP4_LIBRARY": str(LIBRARY), "NVFP4_OTHER": "kept"}
    wanted |= {"NVFP4_HOPPER_CONFIG": "f64", "NVFP4_SIMULATE_MODE": "late", "PYTHONPATH": str(counters.ROOT)}
    assert report == wanted and printed == f"['x'] {counters.ROOT}\n"
    report, _ = counters.simulate(["-c", script], "blackwell", "auto", LIBRARY)
    assert report["NVFP4_BLACKWELL_CONFIG"] == "" and "NVFP4_HOPPER_CONFIG" not in report
    with pytest.raises(RuntimeError, match="hopper f64: so\nit is"):
        counters.simulate(["-c", "import sys; print('so'); sys.exit('it is')"], "hopper", "f64", LIBRARY)


def report_of(warps=10):
    found = {name: 10 * number for number, name in enumerate(counters.KEPT)}
    found["instructions_by_warp"] = [{"index": i, "instructions": 1 << i} for i in reversed(range(warps))]
    return {"counters": found | {"other": 1}, "verdict": "clean"}


def test_a_blackwell_call_is_counted_by_role_too(monkeypatch):
    calls = []

    def simulate(*given, **settings):
        calls.append((given, settings))
        return report_of(), "digest\n"

    monkeypatch.setattr(counters, "simulate", simulate)
    found, digest = counters.counters("1x2x3", "blackwell", "m1", LIBRARY)
    assert digest == "digest" and "other" not in found
    assert {name: found.pop(name) for name in counters.KEPT} == {
        name: 10 * number for number, name in enumerate(counters.KEPT)
    }
    assert found == {
        "load_instructions": 1,
        "mma_instructions": 2,
        "epilogue_instructions": 1024 - 4,
    }
    ((command, *rest), settings) = calls[0]
    assert (
        command[0] == "-c" and command[2] == "1x2x3" and "generate_input(m=m, n=n, k=k, l=1, seed=1111)" in command[1]
    )
    assert rest == ["blackwell", "m1", LIBRARY]
    assert settings == {"NVFP4_SIMULATE_CHECKS": "0", "NVFP4_SIMULATE_MODE": "late"}
    counters.counters("1x2x3", "blackwell", "m1", LIBRARY)
    assert len(calls) == 1
    assert "load_instructions" not in counters.counters("1x2x3", "hopper", "m1", LIBRARY)[0]
    monkeypatch.setattr(counters, "simulate", lambda *given, **settings: (report_of(warps=8), ""))
    assert "load_instructions" not in counters.counters("1x2x4", "blackwell", "m1", LIBRARY)[0]


def test_results_are_checked_in_two_modes(monkeypatch):
    calls = []

    def simulate(words, backend, config, library, **settings):
        calls.append((words[-2:], backend, config, library, settings))
        if settings["NVFP4_SIMULATE_MODE"] != "late":
            raise RuntimeError("x" * 600 + "end")
        return {"verdict": "clean"}, ""

    monkeypatch.setattr(counters, "simulate", simulate)
    found = counters.checked("m1", LIBRARY)
    assert found["late"] == {"right": True, "verdict": "clean"}
    assert found["random:1"]["right"] is False and found["random:1"]["verdict"] == "x" * 497 + "end"
    assert calls[0] == (["--configs", "m1"], "blackwell", "m1", LIBRARY, {"NVFP4_SIMULATE_MODE": "late"})
    counters.checked("auto", LIBRARY)
    assert calls[2][0] == ["--configs", ""]


def test_a_prologue_is_what_the_shortest_problem_loads_a_cta(monkeypatch):
    found = {"1x2x512": {"load_instructions": 90, "ctas": 4}, "1x2x999": {"load_instructions": 7, "ctas": 3}}
    monkeypatch.setattr(
        counters, "counters", lambda shape, backend, config, library: (dict(found[shape]), f"{backend} {config}")
    )
    assert counters.with_prologue("1x2x999", "m1", 2, LIBRARY) == {
        "load_instructions": 7, "ctas": 3, "prologue_instructions": 22,
    }  # fmt: skip


@pytest.mark.parametrize(("backend", "sms"), [("blackwell", "148"), ("hopper", "132")])
def test_the_librarys_choice_is_asked_for_the_whole_chip(tmp_path, monkeypatch, backend, sms):
    table = tmp_path / "tile_table"
    table.write_text(f"""#!{sys.executable}
import json, sys
assert sys.argv[1:3] == {[backend, sms]}
print(json.dumps({{shape: {{"tile": f"tile of {{shape}}", "us": 1}} for shape in sys.argv[3:]}}))
""")
    table.chmod(0o755)
    monkeypatch.setattr(counters.tile_table, "PROGRAM", table)
    assert counters.chosen(backend) == {shape: f"tile of {shape}" for shape in SHAPES}


@pytest.fixture
def counted(monkeypatch):
    """Counts that name what was counted."""
    monkeypatch.setattr(
        counters,
        "counters",
        lambda shape, backend, config, library: ({"of": f"{backend} {config} {shape} {library}"}, "d"),
    )
    monkeypatch.setattr(
        counters, "checked", lambda config, library: {"late": {"right": True, "verdict": f"{config} ok"}}
    )
    monkeypatch.setattr(counters, "chosen", lambda backend: {"chosen of": backend})
    monkeypatch.setattr(counters.tile_table, "tiles", lambda backend: {f"{backend}1": {"split_k": 2}})
    monkeypatch.setattr(
        counters, "with_prologue", lambda shape, config, splits, library: {"of": f"{config} {shape} {splits} {library}"}
    )


def test_the_cost_models_counts(counted, tmp_path):
    path = tmp_path / "x.json"
    assert counters.main(["cost-model", "--library", "/l.so", "--json", str(path)]) == 0
    data = json.loads(path.read_text())
    assert data["blackwell"] == {
        "configs": {"blackwell1": {"split_k": 2}},
        "chosen": {"chosen of": "blackwell"},
        "counters": {"blackwell1": {shape: {"of": f"blackwell1 {shape} 2 /l.so"} for shape in SHAPES}},
    }
    assert data["hopper"] == {
        "configs": {"hopper1": {"split_k": 2}},
        "chosen": {"chosen of": "hopper"},
        "counters": {"auto": {shape: {"of": f"hopper auto {shape} /l.so"} for shape in SHAPES}},
    }
    assert "--json shark_tank/simulated/cost_model_counters.json" in data["command"]


def test_the_rounds_counts(counted, tmp_path, capsys):
    path = tmp_path / "x.json"
    words = ["--variant", "base=m1", "--variant", "wide=auto@/w.so", "--command", "how", "--json", str(path)]
    assert counters.main(["rounds", *words]) == 0
    data = json.loads(path.read_text())
    assert set(data) == {"command", "correct", "counters", "outputs_sha256"} and data["command"] == "how"
    for name, config, library in (("base", "m1", counters.LIBRARY), ("wide", "auto", "/w.so")):
        assert data["counters"][name] == {s: {"of": f"blackwell {config} {s} {library}"} for s in SHAPES}
        assert data["correct"][name] == {"late": {"right": True, "verdict": f"{config} ok"}}
        assert data["outputs_sha256"][name] == dict.fromkeys(SHAPES, "d")
    assert capsys.readouterr().out.splitlines() == ["base: late: m1 ok", "wide: late: auto ok"]


def test_the_record_holds_each_count_that_is_kept_of_each_tile_and_shape():
    found = json.loads((counters.ROOT / counters.RECORD).read_text())
    more = {"blackwell": [f"{role}_instructions" for role in counters.ROLES], "hopper": []}
    for backend, names in more.items():
        for tile, shapes in found[backend]["counters"].items():
            assert list(shapes) == SHAPES, tile
            for counted in shapes.values():
                kept = [name for name in counted if name not in ("prologue_instructions", *names)]
                assert kept == list(counters.KEPT), (backend, tile)
                assert set(names) <= set(counted)
