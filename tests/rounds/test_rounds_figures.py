"""Computed parts of the record: samples, ratios, verdicts, quoted figures, counts."""

from __future__ import annotations

import json

import pytest

from scripts.rounds import figures as rounds_figures
from scripts.rounds import model as rounds_model
from scripts.rounds import stats as rounds_stats
from scripts.rounds.model import parse_samples
from tests.rounds.rounds_kit import ROOT, SHAPES


def lines(*rows):
    keys = ("shape", "variant", "repeat", "us")
    return "\n".join(json.dumps(dict(zip(keys, row, strict=True))) for row in rows).encode()


def test_samples_are_sorted_by_shape_variant_and_repeat():
    content = lines(([1, 2, 3, 9], "a", 0, 1.5), ([1, 2, 3], "a", "1", 2), ([4, 5, 6], "b", 0, 3.0)) + b"\n\n"
    assert parse_samples(content, "x") == {"1x2x3": {"a": {0: 1.5, 1: 2.0}}, "4x5x6": {"b": {0: 3.0}}}


def test_a_comparison_pairs_repeats_and_orders_shapes():
    def times(*us):
        return dict(enumerate(us))

    five = times(1.0, 2.0, 3.0, 4.0, 5.0)
    samples = {
        "512x3072x7168": {"a": five, "b": {number: 2 * us for number, us in five.items()}},
        "256x4096x7168": {"a": five | {9: 100.0}, "b": five, "c": {}},
    }
    found = rounds_stats.compare(samples, "a", "b")
    assert list(found["shapes"]) == ["256x4096x7168", "512x3072x7168"]
    assert found["shapes"]["512x3072x7168"] == {
        "base_us": 3.0,
        "candidate_us": 6.0,
        "samples": 5,
        "ratio": 2.0,
        "low": 2.0,
        "high": 2.0,
    }
    assert found["geomean"] == {
        "base_us": 3.0,
        "candidate_us": 4.2426,
        "ratio": 1.414214,
        "low": 1.414214,
        "high": 1.414214,
    }
    assert (found["seed"], found["draws"]) == (20261121, 2000)
    with pytest.raises(ValueError, match="shape 256x4096x7168: 'a' and 'c' share 0 repeats, expected 5 or more"):
        rounds_stats.compare({"256x4096x7168": samples["256x4096x7168"]}, "a", "c")
    samples["256x4096x7168"]["b"] = dict(list(five.items())[:4])
    with pytest.raises(ValueError, match="share 4 repeats"):
        rounds_stats.compare(samples, "a", "b")
    with pytest.raises(ValueError, match="base variant 'x' is not in the samples; they hold: a, b, c"):
        rounds_stats.compare(samples, "x", "b")
    with pytest.raises(ValueError, match="samples: empty"):
        rounds_stats.compare({}, "a", "b")


def test_shapes_are_in_the_order_of_the_benchmarks():
    shapes = rounds_model.benchmark_shapes(ROOT)
    assert shapes == SHAPES
    assert sorted(sorted(shapes), key=rounds_stats.shape_key) == SHAPES
    assert rounds_stats.shape_key("2x3x4") == ((-3,), (2,), (4,))
    groups = ["192,320x3072x4096", "80,176x4096x7168"]
    assert sorted(groups, key=rounds_stats.shape_key) == groups[::-1]
    line = json.dumps({"shape": ["80,176", 4096, 7168], "variant": "a", "repeat": 0, "us": 1.0}).encode()
    assert list(parse_samples(line, "x")) == groups[1:]


def mean(low, ratio, high, worst=1.0):
    return {
        "geomean": {"low": low, "ratio": ratio, "high": high},
        "shapes": {"a": {"ratio": worst}, "b": {"ratio": 0.5}},
    }


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        (mean(0.995, 1.0, 1.0), "rejected", "1.0000 [0.9950, 1.0000] is not below the noise floor 0.9950"),
        (mean(0.9, 0.95, 0.995), "inconclusive", "0.9500 [0.9000, 0.9950] straddles the noise floor 0.9950"),
        (
            mean(0.9, 0.92, 0.94, 1.0101),
            "rejected",
            "0.9200 [0.9000, 0.9400] is below the noise floor 0.9950, but a is at 1.0101, over 1.01",
        ),
        (
            mean(0.9, 0.92, 0.9949, 1.01),
            "adopted",
            "0.9200 [0.9000, 0.9949] is below the noise floor 0.9950; worst shape a at 1.0100",
        ),
    ],
)
def test_a_verdict_says_how_it_came_about(found, state, reason):
    assert rounds_stats.judge_faster(found, (0.995, 1.005)) == (state, f"geomean ratio {reason}")


@pytest.mark.parametrize(
    ("low", "high", "state", "band"),
    [
        (0.98, 1.02, "adopted", "[0.9800, 1.0200]"),
        (0.979, 1.0, "inconclusive", "[0.9790, 1.0000]"),
        (1.001, 1.021, "inconclusive", "[1.0000, 1.0210]"),
        (0.99, 0.995, "adopted", "[0.9900, 1.0000]"),
    ],
)
def test_a_noise_floor_is_narrow_on_both_sides(low, high, state, band):
    says = {"adopted": "is the noise floor", "inconclusive": "is wider than 2% of 1: too noisy to judge rounds with"}
    assert rounds_stats.judge_noise(mean(low, 1.0, high)) == (state, f"A/A geomean band {band} {says[state]}")


@pytest.mark.parametrize(
    ("shown", "target", "problem"),
    [
        ("1,234.5", "big", None),
        ("1,234.6", "big", "quotes '1,234.6', x.json#big is 1234.5"),
        ("0.95", "list.1.ratio", None),
        ("0.946", "list.1.ratio", "quotes '0.946'"),
        ("5 %", "list.1.ratio:faster", None),
        ("-5 %", "list.1.ratio:slower", None),
        ("1.053", "list.1.ratio:inverse", None),
        ("95 %", "list.1.ratio:percent", None),
        ("95 %", "list.1.ratio:part", "x.json#list.1.ratio:part is not a figure"),
        ("some", "big", "quotes 'some'"),
        ("1", "yes", "x.json#yes is not a figure"),
        ("1", "text", "x.json#text is not a figure"),
        ("1", "list.2.ratio", "x.json#list.2.ratio: KeyError"),
        ("1", "list.x", "KeyError"),
        ("1", "big.x", "KeyError"),
    ],
)
def test_a_quoted_figure_is_the_linked_one(tmp_path, shown, target, problem):
    (tmp_path / "x.json").write_text('{"big": 1234.5, "list": [1, {"ratio": 0.95}], "yes": true, "text": "1"}')
    found = rounds_figures.link_problems(f"\n\nIt is [{shown}](x.json#{target}).", tmp_path, "here")
    assert len(found) == (problem is not None) and all(text.startswith("here:3: ") for text in found)
    assert problem is None or problem in found[0]


@pytest.mark.parametrize(
    "figure",
    [
        "3 us",
        "3.5us",
        "1,000 µs",
        "3 μs",
        "2 ns",
        "2 ms",
        "5 %",
        "5 percent",
        "2 x",
        "2\u00d7",
        "3 times",
        "4 TB/s",
        "4 GB/s",
        "4 MB/s",
        "9 PFLOP",
        "9 TFLOPS",
        "1 GFLOP",
        "0.95",
        "1.012",
    ],
)
def test_every_kind_of_figure_needs_a_link(figure):
    assert rounds_figures.untagged_problems(f"a\nIt is {figure} so.\n", "x") == [
        f"x:2: figure {figure!r} is not linked to the JSON it comes from"
    ]
    for free in ("`{}`", "<!-- figure-ok: why --> {}", "[5](x.json#a) [text](http://{})".replace("{}", "0.95")):
        assert rounds_figures.untagged_problems(free.format(figure), "x") == []
    fenced = f"```\n{figure}\n```\n<!-- generated:a -->\n{figure}\n<!-- /generated:a -->\n{figure}\n"
    assert [text[:4] for text in rounds_figures.untagged_problems(fenced, "x")] == ["x:7:"]


@pytest.mark.parametrize("text", ["3.11", "v0.95", "0.9", "2.13.0", "10.95", "5 user", "3 used", "sm_90a", "0.95.1"])
def test_text_without_a_figure(text):
    assert rounds_figures.untagged_problems(f"It is {text} so.", "x") == []
