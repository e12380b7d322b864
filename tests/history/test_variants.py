"""The meaning of a variant's name, and the page's table of each run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from scripts.history import variants
from scripts.rounds.model import Tank
from scripts.rounds.pages import tables
from tests.rounds.rounds_kit import ROOT


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("auto", "the library's own choice of tile"),
        ("base/auto", "the library's own choice of tile; the library before the change"),
        ("8637071/auto", "the library's own choice of tile; the library of commit 8637071"),
        ("f64x128c4s2", "tile of 64 rows of B by 128 of A, clusters of 4, 2 stages"),
        ("f64x128c1k2", "tile of 64 rows of B by 128 of A, no clusters, K split in 2"),
        ("m256n64k2", "tile of 256 rows of A by 64 of B, K split in two"),
        ("m64k2", "tile of 64 rows of a group's A, K split in two"),
        ("m48", "tile of 48 rows of a group's A"),
        ("auto+plain", "the library's own choice of tile; launched without dependent launch"),
        ("whole/auto", "the library's own choice of tile; another library, 'whole'"),
    ],
)
def test_the_name_of_a_variant_is_explained(name, text):
    assert variants.meaning(name) == text
    if name == "whole/auto":
        assert (
            variants.meaning(name, "0123456789abc")
            == "the library's own choice of tile; the library of commit 012345678"
        )


def test_every_variant_of_this_record_has_a_meaning():
    tank = Tank(ROOT)
    runs = {data["measurement"]["run"] for data in tank.all() if data["measurement"]}
    named = {name for run in runs for variants in tank.samples(run).values() for name in variants}
    baselines = {"cublas_one_gemm", "cublas_two_gemms", "triton", "cublas_groups", "grouped_mm"}
    assert {name for name in named - baselines if not variants.meaning(name)} == set()


def test_a_variant_has_a_part_in_rounds_or_is_a_baseline():
    sides = {"candidate": {"variant": "new"}, "base": {"variant": "old"}}
    of_run = [
        {"number": 7, "verdict": {"state": "adopted"}, **sides},
        {"number": 9, **sides, "verdict": {"state": "x"}},
    ]
    assert variants._roles(of_run, "new", False) == "candidate of 0007: adopted; candidate of 0009: x"
    assert variants._roles(of_run, "old", False) == "base of 0007, 0009"
    assert (
        variants._roles(of_run, "triton", True) == "baseline"
        and variants._roles(of_run, "triton", False) == "in no round"
    )


@pytest.mark.parametrize(
    ("name", "commit", "words"),
    [
        ("auto", None, "the library's own choice of tile"),
        ("f64x128", None, "tile of 64 rows of B by 128 of A"),
        ("f64x128c1", None, "tile of 64 rows of B by 128 of A, no clusters"),
        (
            "f64x128c4s2k2w4",
            None,
            "tile of 64 rows of B by 128 of A, clusters of 4, 2 stages, K split in 2, 4 warpgroups side by side",
        ),
        ("m256n64", None, "tile of 256 rows of A by 64 of B"),
        ("m256n64k2", None, "tile of 256 rows of A by 64 of B, K split in two"),
        ("m16", None, "tile of 16 rows of a group's A"),
        ("m16k2", None, "tile of 16 rows of a group's A, K split in two"),
        ("expand_cublas", None, "a baseline: dequantize NVFP4, then cuBLAS"),
        (
            "m16+plain+again",
            None,
            "tile of 16 rows of a group's A; launched without dependent launch; the same once more, for the noise",
        ),
        ("base/auto", None, "the library's own choice of tile; the library before the change"),
        ("prev/auto", None, "the library's own choice of tile; the library before the change"),
        ("two/auto", None, "the library's own choice of tile; another library, 'two'"),
        ("two/auto", "0123456789abcdef", "the library's own choice of tile; the library of commit 012345678"),
        ("abcdef0123/auto", None, "the library's own choice of tile; the library of commit abcdef012"),
        ("triton", None, ""),
    ],
)
def test_a_variants_name_is_explained_in_words(name, commit, words):
    assert variants.meaning(name, commit) == words


def a_round(number, shapes, base="v0", candidate="v1", commits=("a" * 40, "b" * 40), run="one"):
    return {
        "number": number,
        "base": {"variant": base, "commit": commits[0]},
        "candidate": {"variant": candidate, "commit": commits[1]},
        "verdict": {"state": "adopted"},
        "measurement": {"run": run, "shapes": shapes},
    }


def test_each_run_is_a_table_of_all_its_variants(monkeypatch):
    few, many = ["8x2x3", "16x2x3"], [f"{m}x2x3" for m in range(1, 10)]
    medians = {
        "one": {
            "auto": {"8x2x3": 2.0, "16x2x3": 8.0},
            "base/m16": {"8x2x3": 1.0},
            "cublas": {"8x2x3": 1.5, "16x2x3": 1.5},
        },
        "two": {"auto": dict.fromkeys(many, 2.5), "m64k2": dict.fromkeys(many[1:], 2.0)},
    }
    environments = {"one": {"chip": "H200", "driver": "1.2"}, "two": {"chip": "B200", "driver": "3", "program": {}}}
    monkeypatch.setattr(tables, "run_medians", lambda tank, run: medians[run])
    monkeypatch.setattr(variants, "BASELINES", {"cublas": "cuBLAS, fp16"})
    rounds = [
        {"number": 3, "measurement": None},
        a_round(4, few, "base/m16", "auto"),
        a_round(5, many, "m64k2", "auto", (None, None), "two"),
        a_round(6, few, "base/m16", "auto"),
    ]
    found = variants.run_tables(SimpleNamespace(env=environments.get), rounds, "https://example.org/r")
    of_auto = "https://example.org/r/commit/" + "b" * 40
    of_base = "https://example.org/r/commit/" + "a" * 40
    own = "the library's own choice of tile"
    assert found == [
        (
            "one",
            "H200, driver 1.2; rounds 0004, 0006; medians in us, fastest first. Recorded before samples named their"
            " program, host and clock.",
            "| variant | what it is | role | commit | 8 2 3 | 16 2 3 | geomean |\n"
            "| --- | --- | --- | --- | ---: | ---: | ---: |\n"
            "| `base/m16` | tile of 16 rows of a group's A; the library before the change | base of 0004, 0006 |"
            f" [aaaaaaaaa]({of_base}) | 1.00 | - | - |\n"
            "| cuBLAS, fp16 |  | baseline | - | 1.50 | 1.50 | 1.50 |\n"
            f"| `auto` | {own} | candidate of 0004: adopted; candidate of 0006: adopted |"
            f" [bbbbbbbbb]({of_auto}) | 2.00 | 8.00 | 4.00 |",
        ),
        (
            "two",
            "B200, driver 3; rounds 0005; medians in us, fastest first.",
            "| variant | what it is | role | commit | geomean |\n"
            "| --- | --- | --- | --- | ---: |\n"
            "| `m64k2` | tile of 64 rows of a group's A, K split in two | base of 0005 | - | - |\n"
            f"| `auto` | {own} | candidate of 0005: adopted | - | 2.50 |",
        ),
    ]
    assert "| `bbbbbbbbb` |" in variants.run_tables(SimpleNamespace(env=environments.get), rounds, None)[0][2]
