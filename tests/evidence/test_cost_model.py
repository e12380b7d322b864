"""The cost model: arithmetic against the simulator's counts, fits, and what is committed."""

from __future__ import annotations

import json

import pytest

from scripts.common import tile_table
from scripts.cost_model import compute
from scripts.cost_model.model import (
    Design,
    Fit,
    blackwell_bounds,
    clusters_at_once,
    fit,
    geomean,
    hypotheses,
    parse_shape,
)


@pytest.fixture(scope="module")
def counts():
    return json.loads(compute.COUNTERS.read_text())


@pytest.fixture(scope="module")
def result():
    return json.loads(compute.RESULT.read_text())


def test_the_committed_cost_model_is_what_the_committed_counts_give():
    for path, text in compute.documents().items():
        assert path.read_text() == text, f"{path.name} is stale: run python -m scripts.cost_model"


def test_the_counts_are_of_the_configurations_there_are(counts):
    again = "run `make cost-model`"
    assert counts["blackwell"]["configs"] == tile_table.tiles("blackwell"), again
    hopper, now = counts["hopper"], tile_table.tiles("hopper")
    assert {name: hopper["configs"][name] for name in hopper["chosen"].values()} == {
        name: now.get(name) for name in hopper["chosen"].values()
    }, again


def test_bytes_and_tensor_cycles_of_the_model_are_those_the_simulator_counts(counts):
    compared = 0
    for name, figures in counts["blackwell"]["configs"].items():
        design = Design(figures["tile_n"], figures["ctas"], figures["split_k"], figures["tail"])
        for text, counted in counts["blackwell"]["counters"][name].items():
            shape = parse_shape(text)
            assert counted["ctas"] == design.grid(shape)
            if shape[1] % design.features:
                continue  # boxes past the end of B
            assert counted["tensor_cycles"] == counted["ctas"] * design.stages(shape) * design.tensor_cycles()
            assert counted["tma_load_bytes"] == counted["ctas"] * design.stages(shape) * design.issued_stage_bytes()
            assert counted["global_store_bytes"] == 2 * shape[0] * shape[1]
            if design.splits > 1:
                assert counted["shared_store_bytes"] == counted["ctas"] * design.reduction_bytes()
            compared += 1
    assert compared >= 16


def test_bounds_of_a_published_design_by_hand():
    bounds = blackwell_bounds(Design(features=64, ctas=2), (256, 4096, 7168))
    # 28 stages of 128 rows of A, 32 of B1 and B2, and three scale tiles a step; 64 bytes a cycle of 1.856 GHz.
    assert bounds["L2 to SM"] == pytest.approx(28 * (192 * 128 + 3 * 2048) / 64 / 1856)
    assert bounds["tensor"] == pytest.approx(28 * 4 * 64 / 1856)
    assert bounds["memory"] == pytest.approx(36.2e6 / 7.68e6, rel=2e-3)  # MB of task.md


def test_waves_count_clusters_that_fit_at_once():
    assert [clusters_at_once(size, 148) for size in (1, 2, 4, 8)] == [148, 74, 32, 16]
    assert Design(64, 2).waves((256, 4096, 7168), 148) == 1
    assert Design(64, 2).waves((512, 4096, 7168), 148) == 2
    assert Design(128, 2, splits=2).waves((256, 4096, 7168), 148) == 1


def test_a_fit_gives_back_the_line_and_foretells_a_point_it_has_not_seen():
    exact = fit([1.0, 2.0, 4.0, 5.0], [5.0, 7.0, 11.0, 13.0])
    assert (exact.fixed_us, exact.slope, exact.error) == pytest.approx((3.0, 2.0, 0.0))
    # The last point lies off the line through the first three, 1 + x: foretold 4, known 8.
    assert fit([0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 8.0]).left_out[3] == pytest.approx(-0.5)


def test_only_hypotheses_that_explain_the_times_are_kept():
    def with_error(error):
        return Fit(0.0, 1.0, [], [error])

    assert hypotheses({"a": with_error(0.05), "b": with_error(0.1), "c": with_error(-0.11)}) == ["a", "b"]


def test_an_envelope_holds_its_prediction_and_every_hypothesis(result):
    for row in (found for of in result["blackwell"]["rows"].values() for found in of.values()):
        predicted = row["predicted"]
        assert predicted["low_us"] < min(predicted["by_hypothesis_us"].values())
        assert predicted["high_us"] > max(predicted["by_hypothesis_us"].values())
        assert predicted["low_us"] < predicted["us"] < predicted["high_us"]
        assert predicted["us"] < predicted["isolated_us"]


def test_what_is_said_to_be_hidden_for_the_target_meets_it(result):
    means, rows = result["geomean"], result["blackwell"]["rows"]
    times = [
        rows[shape][name]["predicted"]["isolated_us"] for shape, name in result["blackwell"]["best_by_model"].items()
    ]
    assert geomean([us - means["to_hide_for_target_us"] for us in times]) == pytest.approx(means["target_us"], rel=1e-4)
    said = compute.TEXT.read_text()
    assert ("**does not predict**" in said) == (means["best_by_model"]["us"] >= means["target_us"])


def test_predictions_of_hopper_lie_around_the_measured_times(result):
    for shape, found in result["predictions"]["hopper"].items():
        assert found["low_us"] <= result["hopper"]["measured_us"][shape] <= found["high_us"]


def test_a_stale_cost_model_is_found(tmp_path, monkeypatch, capsys):
    for name in ("RESULT", "TEXT"):
        path = tmp_path / getattr(compute, name).name
        path.write_text(getattr(compute, name).read_text())
        monkeypatch.setattr(compute, name, path)
    monkeypatch.setattr(compute, "ROOT", tmp_path)
    assert compute.main(["--check"]) == 0
    compute.TEXT.write_text(compute.TEXT.read_text().replace("9", "8", 1))
    assert compute.main(["--check"]) == 1
    assert "blackwell_cost_model.md is not current" in capsys.readouterr().err
