"""The bring-up protocol: its commands for each chip, and its report of their results."""

from __future__ import annotations

import argparse
import json
import os
from types import SimpleNamespace

import pytest

from scripts.bring_up import protocol, steps
from scripts.bring_up.steps import FAILED, PASSED, SKIPPED, TIMED_OUT, Outcome

BASELINES = "cublas_one_gemm,cublas_two_gemms,triton,scaled_mm,scaled_one_gemm"
SHAPES = ["256x4096x7168", "512x4096x7168", "256x3072x4096", "512x3072x7168"]


class Recorder:
    """Records the steps instead of running them; has outcomes and results by name."""

    def __init__(self):
        self.steps, self.outcomes, self.answers = [], [], {}

    def run(self, step):
        outcome, result = (SKIPPED, None) if step.skip else self.answers.get(step.name, (PASSED, None))
        self.steps.append(step)
        self.outcomes.append(Outcome(step.name, "", outcome, 0, 0.0, step.limit_s, step.skip, result))
        return self.outcomes[-1]

    def as_json(self):
        return []


@pytest.fixture
def day(tmp_path, monkeypatch):
    """A protocol whose steps are only recorded."""
    monkeypatch.setattr(protocol.os, "sched_getaffinity", lambda pid: range(16))
    monkeypatch.setattr(protocol.tile_table, "names", lambda backend: [f"{backend}1", f"{backend}2"])

    def make(capability=None, sanitizer="/cuda/compute-sanitizer", **changes):
        given = {"json": tmp_path / "report.json", "folder": tmp_path, "minutes": 5.0, "configs": "", "skip": []}
        made = protocol.Day(argparse.Namespace(**({"dry": None} | given | changes)), lambda name: None)
        made.session = Recorder()
        device = {"capability": capability} if capability else None
        made.session.answers["environment"] = (PASSED, {"device": device, "compute_sanitizer": sanitizer})
        return made

    return make


def module_only(text):
    """`python -m a.b` and `python a/b.py` as `b`."""
    words = text.split()
    if "python" in words:
        at = words.index("python")
        used = 2 if words[at + 1] == "-m" else 1
        words[at : at + used + 1] = [words[at + used].removesuffix(".py").replace("/", ".").split(".")[-1]]
    return " ".join(words)


def lines(made):
    """The recorded steps as `name [limit] settings command`."""
    found = []
    for step in made.session.steps:
        command = steps.shown(step.command, step.environment).replace(f"{made.folder}/", "")
        found.append(f"{step.name} [{step.limit_s:g}] {module_only(command)}")
    return found


def test_the_protocol_on_a_card(day):
    made = day(capability=[9, 0])
    made.run()
    sanitizer = "--error-exitcode 1 --kernel-name-exclude kernel_substring=at::"
    checks = "leaderboard,edges,full_benchmarks,nan_scales"
    variants = "auto,auto+again,auto+plain,hopper1,hopper2"
    assert lines(made) == [
        "environment [60] environment machine environment.json",
        "build [600] make -j16 build",
        "library [60] environment library library.json",
        "check auto [300] check_gpu --device cuda --json check-auto.json",
        f"check every configuration [300] check_gpu --device cuda --only {checks} --configs hopper1,hopper2"
        " --json check-every-configuration.json",
        *(
            f"time {shape} [120] compare --seconds 20 --variants {variants} --baselines {BASELINES} --shapes {shape}"
            f" --samples samples-{shape}.jsonl --json time-{shape}.json"
            for shape in SHAPES
        ),
        "eval test [240] eval test reference/problems/dual_gemm/test.txt --json eval-test.json",
        "eval benchmark [240] eval benchmark reference/problems/dual_gemm/benchmark.txt --json eval-benchmark.json",
        *(
            f"sanitizer {tool} [300] /cuda/compute-sanitizer --tool {tool} {sanitizer}"
            " check_gpu --only rings --configs hopper1,hopper2"
            for tool in ("memcheck", "racecheck", "synccheck")
        ),
    ]
    assert all(step.environment == {} for step in made.session.steps)
    assert made.report["backend"] == "hopper" and made.report["configs"] == ["hopper1", "hopper2"]
    assert made.report["mode"] == "device" and made.report["format"] == "bring-up-1"


@pytest.mark.parametrize("backend", ["blackwell", "cpu"])
def test_the_protocol_without_a_card(day, tmp_path, backend):
    made = day(dry=backend, capability=[9, 0])
    made.run()
    simulated = backend != "cpu"
    dry = ("NVFP4_SIMULATE=1 NVFP4_SIMULATE_CHECKS=0 " if simulated else "") + f"NVFP4_BACKEND={backend}"
    small = "--device cpu --inputs 2 --repeats 3"
    variants = "auto,auto+again,auto+plain,blackwell1,blackwell2" if simulated else "auto,auto+again"
    configs = (
        f"check every configuration [300] {dry} check_gpu --device cpu --only rings,nan_scales"
        " --configs blackwell1,blackwell2 --json check-every-configuration.json"
    )
    benchmark = f"eval benchmark [240] {dry} eval benchmark dry_cases.txt --device cpu --json eval-benchmark.json"
    assert [line for line in lines(made) if not line.startswith("sanitizer")] == [
        "environment [60] environment machine environment.json --without-device",
        f"build [600] {dry} make -j16 {'simulator' if simulated else 'build'}",
        f"library [60] {dry} environment library library.json",
        f"check auto [300] {dry} check_gpu --device cpu --only rings,nan_scales --json check-auto.json",
        *([configs] if simulated else []),
        f"time 128x128x512 [120] {dry} compare {small} --variants {variants} --baselines cublas_one_gemm"
        " --shapes 128x128x512 --samples samples-128x128x512.jsonl --json time-128x128x512.json",
        f"eval test [240] {dry} eval test dry_cases.txt --device cpu --json eval-test.json",
        *([] if simulated else [benchmark]),
    ]
    skipped = {step.name: step.skip for step in made.session.steps if step.skip}
    assert skipped == {f"sanitizer {tool}": "not on a simulator" for tool in protocol.SANITIZERS}
    assert (tmp_path / "dry_cases.txt").read_text() == "m: 128; n: 128; k: 512; l: 1; seed: 1111\n"
    assert (made.report["mode"], made.report["backend"]) == ("dry", backend)


@pytest.mark.parametrize(
    ("capability", "backend"),
    [([9, 0], "hopper"), ([10, 0], "blackwell"), ([10, 3], "blackwell"), ([12, 1], "geforce"), ([8, 9], "blackwell")],
)
def test_the_backend_is_that_of_the_card(day, capability, backend):
    made = day(capability=capability, configs=f"{backend}2,none")
    made.prepare()
    assert (made.backend, made.report["backend"]) == (backend, backend)
    assert made.report["configs"] == [f"{backend}2"]


def test_the_protocol_goes_on_without_facts_about_the_machine(day):
    for answer in ((TIMED_OUT, None), (PASSED, {"device": None, "compute_sanitizer": None})):
        made = day()
        made.session.answers["environment"] = answer
        made.run()
        assert made.report["environment"] is answer[1] and made.backend == "blackwell"
        skipped = [step.skip for step in made.session.steps if step.skip]
        assert skipped == ["no compute-sanitizer here"] * 3


def test_steps_named_by_name_or_first_word_are_skipped(day):
    made = day(capability=[9, 0], skip=["build", "eval test", "sanitizer"])
    made.run()
    left_out = [step.name for step in made.session.steps if step.skip == "left out by --skip"]
    assert left_out == ["build", "eval test", "sanitizer memcheck", "sanitizer racecheck", "sanitizer synccheck"]


@pytest.mark.parametrize(("outcome", "again"), [(FAILED, True), (TIMED_OUT, True), (PASSED, False), (SKIPPED, False)])
def test_a_failing_choice_is_tried_without_dependent_launch(day, outcome, again):
    made = day(capability=[10, 0])
    made.prepare()
    made.session.answers["check auto"] = (outcome, None)
    made.check()
    extra = [step for step in made.session.steps if step.name == "check auto without dependent launch"]
    assert len(extra) == again
    for step in extra:
        assert step.environment == {"NVFP4_BLACKWELL_DEPENDENT_LAUNCH": "0"}
        assert "--only leaderboard,back_to_back" in " ".join(step.command)


def test_one_configuration_that_fails_is_found_by_itself(day):
    made = day(capability=[9, 0])
    made.prepare()
    made.session.answers |= {"check every configuration": (FAILED, None), "check hopper1": (FAILED, None)}
    assert made.check() == ["hopper2"]
    (single,) = [step for step in made.session.steps if step.name == "check hopper2"]
    assert " ".join(single.command).endswith(f"--configs hopper2 --json {made.folder / 'check-hopper2.json'}")
    made.session.answers["check hopper1"] = (SKIPPED, None)
    assert made.check() == ["hopper1", "hopper2"]
    made.session.answers["check every configuration"] = (SKIPPED, None)
    before = len(made.session.steps)
    assert made.check() == ["hopper1", "hopper2"] and len(made.session.steps) == before + 2


def test_checks_are_collected(day):
    made = day()
    checks = [{"check": "edges", "passed": 3, "failures": ["a", "b"]}, {"check": "rings", "passed": 4, "failures": []}]
    for outcome, result in ((FAILED, {"checks": checks}), (TIMED_OUT, None), (SKIPPED, {"checks": checks})):
        made.collect_checks(Outcome("name", "", outcome, 1, 0.0, 0.0, "", result))
    assert made.report["checks"] == [
        {"step": "name", "outcome": FAILED, "passed": 7, "failures": ["edges: a", "edges: b"]},
        {"step": "name", "outcome": TIMED_OUT, "passed": 0, "failures": []},
    ]


def test_times_are_medians_of_their_samples(day, tmp_path):
    made = day()
    samples = tmp_path / "samples.jsonl"
    times = [("b", 3.0004), ("a", 10.0), ("a", 12.0), ("a", 11.0), ("a", 40.0)]
    samples.write_text("".join(json.dumps({"variant": name, "us": us}) + "\n" for name, us in times))
    made.collect_times("1x2x3", samples, {"c": "c: wrong"})
    made.collect_times("4x5x6", tmp_path / "none", {})
    first, second, third = made.report["times"]
    assert (first["variant"], first["median_us"], first["samples_us"]) == ("a", 11.5, [10.0, 12.0, 11.0, 40.0])
    assert first["spread"] == round(protocol.relative_spread([10.0, 12.0, 11.0, 40.0]), 5) > 0
    same = {"shape": "1x2x3", "samples_us": [], "left_out": ""}
    assert second == same | {"variant": "b", "median_us": 3.0, "spread": 0.0, "samples_us": [3.0]}
    assert third == same | {"variant": "c", "median_us": None, "spread": None, "left_out": "c: wrong"}


def test_samples_of_an_earlier_day_are_not_taken(day, tmp_path):
    made = day(dry="cpu")
    (tmp_path / "samples-128x128x512.jsonl").write_text('{"variant": "auto", "us": 1.0}\n')
    made.session.answers["time 128x128x512"] = (PASSED, {"left_out": {"auto": "gone"}})
    made.time([])
    assert [(entry["variant"], entry["left_out"]) for entry in made.report["times"]] == [("auto", "gone")]


@pytest.mark.parametrize(
    ("us", "inside"), [(8.99, False), (9.0, True), (10.0, True), (11.0, True), (11.01, False), (0.01, False)]
)
def test_a_time_is_inside_between_both_ends_of_its_interval(tmp_path, monkeypatch, us, inside):
    predicted = {"us": 8.0, "low_us": 9.0, "high_us": 11.0}
    monkeypatch.setattr(protocol, "COST_MODEL", tmp_path / "cost_model.json")
    protocol.COST_MODEL.write_text(json.dumps({"predictions": {"hopper": {"1x2x3": predicted}}}))
    entry = {"shape": "1x2x3", "variant": "auto", "median_us": us}
    bounds = {"predicted_us": 8.0, "low_us": 9.0, "high_us": 11.0}
    ratio = round(us / 8.0, 4)
    assert protocol.against_cost_model([entry], "hopper") == [
        {
            "shape": "1x2x3",
            "variant": "auto",
            "measured_us": us,
            **bounds,
            "inside": inside,
            "measured_over_predicted": ratio,
        }
    ]
    assert protocol.against_cost_model([entry | {"median_us": None}], "hopper") == []
    protocol.COST_MODEL.write_text("{}")
    assert protocol.against_cost_model([entry], "hopper") == []


def test_the_benchmark_and_what_the_library_says_are_kept(day):
    made = day(capability=[9, 0])
    made.session.answers |= {
        "library": (PASSED, {"backends": [1]}),
        "eval benchmark": (FAILED, {"cases": 2}),
        "eval test": (PASSED, {"cases": 3}),
    }
    made.run()
    assert made.report["library"] == {"backends": [1]} and made.report["benchmark"] == {"cases": 2}
    written = json.loads(made.options.json.read_text())
    assert written == made.report and written["started"] <= written["finished"]


REPORT = {
    "backend": "hopper",
    "mode": "dry",
    "steps": [
        {"name": "build", "outcome": "passed", "seconds": 1.26, "log_tail": "all\nwell"},
        {"name": "check", "outcome": "failed", "seconds": 2.0, "log_tail": "first\nthe last " + "x" * 80 + "\n\n"},
        {"name": "time", "outcome": "skipped", "seconds": 0.0, "log_tail": ""},
    ],
    "times": [
        {"shape": "1x2x3", "variant": "auto", "median_us": 1.234},
        {"shape": "4x5x6", "variant": "auto", "median_us": None},
        {"shape": "4x5x6", "variant": "again", "median_us": 20.0},
    ],
    "against_cost_model": [
        {"shape": "1x2x3", "variant": "auto", "measured_us": 1.2, "predicted_us": 1.0, "low_us": 0.5, "high_us": 1.1}
        | {"inside": False},
        {"shape": "4x5x6", "variant": "t64", "measured_us": 1.0, "predicted_us": 1.0, "low_us": 0.5, "high_us": 1.1}
        | {"inside": True},
    ],
    "checks": [{"step": "check", "failures": [f"edge {number}" for number in range(7)]}],
}


def test_the_printed_report(monkeypatch, capsys):
    tables = []
    monkeypatch.setattr(protocol, "print_table", lambda *table: tables.append(table))
    protocol.print_report(REPORT)
    title, head, rows = tables[0]
    assert "hopper" in title and title.endswith("dry") and head[:3] == ["step", "outcome", "s"]
    assert rows == [
        ["build", "passed", "1.3", ""],
        ["check", "failed", "2.0", ("the last " + "x" * 80)[:60]],
        ["time", "skipped", "0.0", ""],
    ]
    assert "dry" in tables[1][0]
    assert tables[1][1:] == (["variant", "1x2x3", "4x5x6"], [["auto", "1.23", "-"], ["again", "-", "20.00"]])
    assert tables[2][1:] == (
        ["M N K", "tile", "measured us", "predicted us", "interval", ""],
        [
            ["1x2x3", "auto", "1.20", "1.00", "0.50 to 1.10", "outside"],
            ["4x5x6", "t64", "1.00", "1.00", "0.50 to 1.10", "inside"],
        ],
    )
    assert capsys.readouterr().out.splitlines() == [f"FAIL check: edge {number}" for number in range(5)]
    for changes, count in (
        ({"mode": "device", "against_cost_model": []}, 1),
        ({"times": [], "against_cost_model": []}, 0),
    ):
        tables.clear()
        protocol.print_report(REPORT | {"checks": []} | changes)
        assert len(tables[1:]) == count and not any("dry" in table[0] for table in tables[1:])


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """Runs the command line with a protocol that does nothing; returns its options, output and exit status."""

    def run(*words, outcomes=(), problems=()):
        seen = {}

        class Nothing:
            def __init__(self, options, announce):
                seen.update(options=options, environment=dict(os.environ), ran=False)
                self.report = {}
                self.session = SimpleNamespace(outcomes=[SimpleNamespace(outcome=found) for found in outcomes])

            def run(self):
                seen["ran"] = True

        monkeypatch.setattr(protocol, "Day", Nothing)
        monkeypatch.setattr(protocol, "print_report", lambda report: print("the report"))
        monkeypatch.setattr(protocol, "schema_problems", lambda report: problems)
        seen["status"] = protocol.main(["--json", str(tmp_path / "new" / "report.json"), *words])
        return SimpleNamespace(**seen, said=capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("outcomes", "problems", "status"),
    [
        ((PASSED, SKIPPED), [], 0),
        ((PASSED, FAILED), [], 1),
        ((TIMED_OUT,), [], 1),
        ((PASSED,), ["steps: missing"], 1),
        ((PASSED,), None, 0),
    ],
)
def test_the_exit_status_says_whether_all_went_well(command, tmp_path, outcomes, problems, status):
    done = command(outcomes=outcomes, problems=problems)
    assert done.status == status and done.ran and "the report\n" in done.said.out
    assert done.said.out.endswith(f"send back {tmp_path / 'new' / 'report.json'}\n")
    assert ("jsonschema is not installed" in done.said.out) == (problems is None)
    wanted = "the report breaks shark_tank/bring_up.schema.json: steps: missing"
    assert (wanted in done.said.err) == bool(problems)


def test_the_librarys_own_choices_are_reported(command, monkeypatch):
    for name in ("NVFP4_BACKEND", "NVFP4_HOPPER_CONFIG", "NVFP4_LIBRARY", "OTHER_NVFP4_"):
        monkeypatch.setenv(name, "x")
    kept = {name for name in command().environment if "NVFP4_" in name}
    assert {"NVFP4_LIBRARY", "OTHER_NVFP4_"} <= kept and not kept & {"NVFP4_BACKEND", "NVFP4_HOPPER_CONFIG"}


def test_its_options(command):
    options = command().options
    assert (options.minutes, options.configs, options.skip, options.dry) == (45.0, "", [""], None)
    assert options.folder == protocol.ROOT / "build" / "bring_up"
    options = command("--skip", "build,eval test", "--dry", "hopper", "--minutes", "4", "--configs", "a,b").options
    assert (options.minutes, options.configs, options.dry) == (4.0, "a,b", "hopper")
    assert options.skip == ["build", "eval test"] and options.json.parent.is_dir()


def test_the_time_of_the_day_is_given_in_minutes(tmp_path):
    given = {"json": tmp_path / "x", "folder": tmp_path, "minutes": 2.0, "configs": "", "skip": [], "dry": None}
    made = protocol.Day(argparse.Namespace(**given), print)
    assert 110 < made.session._end - steps.time.monotonic() <= 120
