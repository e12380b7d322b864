"""Counts of the Blackwell kernels: the calls that count, what is kept, and one kernel against its tile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from scripts.common import tile_table
from simulator.calibration.calls import counters

SHAPES = ["256x4096x7168", "512x4096x7168", "256x3072x4096", "512x3072x7168"]
LIBRARY = Path("/some/library.so")


@pytest.fixture(autouse=True)
def nothing_remembered():
    caches = (counters.counters, counters.checked)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


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


def test_the_rounds_counts(counted, tmp_path, capsys):
    path = tmp_path / "x.json"
    words = ["--variant", "base=m1", "--variant", "wide=auto@/w.so", "--command", "how", "--json", str(path)]
    assert counters.main(words) == 0
    data = json.loads(path.read_text())
    assert set(data) == {"command", "correct", "counters", "outputs_sha256"} and data["command"] == "how"
    for name, config, library in (("base", "m1", counters.LIBRARY), ("wide", "auto", "/w.so")):
        assert data["counters"][name] == {s: {"of": f"blackwell {config} {s} {library}"} for s in SHAPES}
        assert data["correct"][name] == {"late": {"right": True, "verdict": f"{config} ok"}}
        assert data["outputs_sha256"][name] == dict.fromkeys(SHAPES, "d")
    assert capsys.readouterr().out.splitlines() == ["base: late: m1 ok", "wide: late: auto ok"]


@pytest.mark.skipif(not counters.LIBRARY.is_file(), reason="the simulated library is not built: no nvcc")
def test_a_blackwell_kernel_that_splits_k_moves_and_multiplies_what_its_tile_says():
    name, (m, n, k) = "m256n128k2", (256, 128, 1280)
    figures = tile_table.tiles("blackwell")[name]
    assert (figures["tile_n"], figures["ctas"], figures["split_k"]) == (128, 2, 2)
    found, digest = counters.counters(f"{m}x{n}x{k}", "blackwell", name)
    stages = 2 * k // 256  # both CTAs of a pair, both halves of K together
    codes, scales = (128 + 2 * 128 // 2) * 128, 2048  # bytes a CTA and stage: A and half of both B; a tile of scales
    assert found["ctas"] == 4
    assert found["tensor_cycles"] == stages * 4 * 128
    assert found["tma_load_bytes"] == stages * (codes + scales + 2 * scales // 2)
    assert found["global_store_bytes"] == 2 * m * n
    assert found["shared_store_bytes"] == 4 * (2 * 128 * 128 * 4) // 2  # half of the fp32 sums of both products
    assert sum(found[f"{role}_instructions"] for role in ("load", "mma", "epilogue")) == found["instructions"]
    assert len(digest) == 64
