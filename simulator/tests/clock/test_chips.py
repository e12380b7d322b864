"""Chip files: the library's files have all parameters, and the error for a wrong file names the key."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from simulator.tests.clock.clock_kit import H200, more
from simulator.tests.sim_kit import HEADER, ROOT, Sim, body, built

CHIPS = sorted(path.stem for path in (ROOT / "simulator/clock/chips").glob("*.json"))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_kernel_is_timed_on_every_chip_by_its_name(chip, tmp_path):
    path = tmp_path / "kernel.ptx"
    path.write_text(HEADER + ".visible .entry k() { ret; }")
    done = subprocess.run([built("ptxsim"), path, "--time", chip, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["time"]["kernel_us"] > 0


def test_each_chips_file_has_every_parameter_and_measured_mechanism():
    names = {
        chip: set(json.loads((ROOT / f"simulator/clock/chips/{chip}.json").read_text())["parameters"]) for chip in CHIPS
    }
    text = (ROOT / "simulator/clock/chip.h").read_text()
    listed = text.partition("#define CHIP_PARAMETERS(X)")[2].partition("\n\n")[0]
    needed = {*re.findall(r"^    X\((\w+)", listed, re.MULTILINE), "copy_latency_l2", "copy_latency_hbm"}
    assert len(CHIPS) >= 3 and len(needed) > 100 and all(needed <= found for found in names.values()), names
    mma_rates = {name for name in names["rtx5090"] if name.startswith("mma_")}
    assert names["b200"] - {"hbm_loaded_shared"} <= names["h200"] and names["rtx5090"] - mma_rates <= names["h200"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p.pop("hbm_rate"), "hbm_rate: missing"),
        (lambda p: p.update(speed=p["sms"]), "speed: no such parameter"),
        (lambda p: p["alu_latency"].update(unit="ns"), "alu_latency: unit 'ns'"),
        (lambda p: p["alu_latency"].update(value=-1), "alu_latency: -1 is outside"),
        (lambda p: p["sm_load_rate"].update(value=0), "sm_load_rate: 0 is outside"),
        (lambda p: p["hbm_loaded_power"].update(value=9), "hbm_loaded_power: more than 8"),
        (lambda p: p["l1_bytes"].update(value=0), "l1_bytes: less than a line of 128 bytes"),
        (lambda p: p["l2_bytes"].update(value=1920), "l2_bytes: less than a set of 16 lines"),
        (lambda p: p["alu_latency"].update(source="I think so"), "alu_latency: source 'I think so'"),
        (lambda p: p["alu_latency"].pop("source"), "alu_latency: expected ','"),
        (lambda p: p["copy_latency_l2"].update(value=[[5, 1], [5, 2]]), "copy_latency_l2: its points do not rise"),
        (lambda p: p["copy_latency_l2"].update(value=7), "copy_latency_l2: expected '['"),
    ],
)
def test_a_chip_file_that_is_wrong_is_refused_by_its_key(tmp_path, change, said):
    chip = json.loads(H200.read_text())
    change(chip["parameters"])
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(chip))
    with pytest.raises(ValueError, match=said.replace("[", r"\[").replace("-1", r"\-1")):
        Sim(body(""), chip=str(path))


POINTS = "[" + ", ".join(f"[{i}, 1]" for i in range(1, 10)) + "]"
TEXTS = {  # a whole file, in which NAME stands for a parameter's begin: the message
    '{"name": "x"}': "chip file: a member 'name'; expected chip",
    '{"chip": "x", "values": {}}': "chip file: a member 'values'; expected parameters",
    '{"chip": "x" "parameters": {}}': "chip: expected ',' at '\"parameters\"'",
    '["chip"]': "chip file: expected '{' at '[\"chip\"]'",
    "": "chip file: expected '{' at ''",
    '{"chip': "chip file: expected '\"' at ''",
    '{"chip": "\\u0041"}': "chip: a string that is too long or has an escape",
    '{"chip": "' + "x" * 500 + '"}': "chip: a string that is too long or has an escape",
    '{"chip": "x", "parameters": {"sms": {"unit": 1}}}': "sms: a member 'unit'; expected value",
    '{"chip": "x", "parameters": {"sms": {"value": x}}}': "sms: no number at 'x}}}'",
    '{"chip": "x", "parameters": {"sms": {"value": 4, "source": "x"}}}': "sms: ",
    '{"chip": "x", "parameters": {"copy_latency_l2": {"value": ' + POINTS + "}}}": "copy_latency_l2: ",
}


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_is_no_chips_file_is_refused_where_it_goes_wrong(tmp_path, text):
    path = tmp_path / "chip.json"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:
        Sim(body(""), chip=str(path))
    assert TEXTS[text] in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.replace('"sms": {"value": 132', '"sms": {"value": 0'), "sms: "),
        (lambda t: t.replace('"alu_latency"', '"sms"', 1), "sms: given twice"),
        (lambda t: t.rstrip().removesuffix("}"), "chip file: expected '}' at ''"),
        (lambda t: t, None),
    ],
)
def test_a_chip_file_that_is_changed_as_text(tmp_path, change, said):
    path = tmp_path / "chip.json"
    path.write_text(change(json.dumps(json.loads(H200.read_text()))))
    if said is None:
        assert Sim(body(""), chip=str(path)).time is not None
        return
    with pytest.raises(ValueError) as caught:
        Sim(body(""), chip=str(path))
    assert said in str(caught.value)


def test_an_unknown_chip_is_named_and_a_file_of_ones_own_counts(tmp_path):
    with pytest.raises(ValueError, match="no chip 'h300'"):
        Sim(body(""), chip="h300")
    chip = json.loads(H200.read_text())
    chip["parameters"]["alu_latency"]["value"] = 7
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(chip))
    assert more("shf.l.wrap.b32 %r1, %r1, %r1, %r1;", (10, 50), chip=str(path)) == 7


def test_every_parameter_of_every_chip_says_where_it_is_from():
    for path in H200.parent.glob("*.json"):
        entries = json.loads(path.read_text())["parameters"]
        assert list(entries) and all(entry["source"] for entry in entries.values())
        lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
        assert len(lines) == len(entries), f"{path.name}: a line a parameter"
