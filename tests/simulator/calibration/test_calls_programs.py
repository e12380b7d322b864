"""The programs of the cost model: what they ask of the simulator and of other programs, and what they write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

from scripts.common import simulated_call, tensorcore
from simulator.calibration.calls import experts, geforce, model_times, public_kernels
from simulator.calibration.rows import parameters_digest
from simulator.validation.third_party.third_party_sources import Sources


def test_a_call_is_simulated_by_a_process_of_its_own(monkeypatch, tmp_path):
    asked = []

    def run(command, cwd, env, check):
        asked.append((command, cwd, env, check))
        Path(env["NVFP4_SIMULATE_JSON"]).write_text('{"time": {"launches": []}}')

    monkeypatch.setattr(simulated_call.subprocess, "run", run)
    monkeypatch.setenv("KEPT", "yes")
    assert simulated_call.simulated_calls((1, 2, 3), "hopper") == {"launches": []}
    other = tmp_path / "trace.json"
    simulated_call.simulated_calls((4, 5, 6), "blackwell", 7, other, tmp_path, NVFP4_BACKEND="cpu", OTHER="x")
    (command, cwd, env, check), (command_2, cwd_2, env_2, _) = asked
    assert command[3:] == ["1", "2", "3", "1"] and command_2[3:] == ["4", "5", "6", "7"], (
        "one call unless more are asked"
    )
    assert (cwd, cwd_2, check) == (simulated_call.ROOT, tmp_path, True)
    assert env["NVFP4_LIBRARY"] == str(simulated_call.BUILD / "libcustom_kernel_sim.so")
    assert env_2["NVFP4_LIBRARY"] == str(tmp_path / "build/libcustom_kernel_sim.so")
    settings = [
        f"NVFP4_{name}" for name in ("BACKEND", "SIMULATE", "SIMULATE_TIME", "SIMULATE_CHECKS", "SIMULATE_VALUES")
    ]
    assert [env[name] for name in settings] == ["hopper", "1", simulated_call.CHIPS["hopper"], "0", "0"]
    assert (env["KEPT"], env["PYTHONPATH"], env_2["PYTHONPATH"]) == ("yes", str(simulated_call.ROOT), str(tmp_path))
    assert (env_2["NVFP4_BACKEND"], env_2["OTHER"], env_2["NVFP4_SIMULATE_TIMELINE"]) == ("cpu", "x", str(other))
    assert "NVFP4_SIMULATE_TIMELINE" not in env


def test_products_of_experts_are_simulated_with_the_same_tokens_on_both_chips(monkeypatch, tmp_path):
    asked = []

    def program(code, arguments, backend):
        asked.append((backend, *map(int, arguments)))
        return {"launches": [{"start_us": 1.0, "end_us": 1.0 + len(asked)}]}

    monkeypatch.setattr(experts, "simulated_program", program)
    assert experts.main([str(tmp_path / "record.json")]) == 0
    rows = json.loads((tmp_path / "record.json").read_text())["rows"]
    assert [us for row in rows for us in row["us"].values()] == list(range(1, 13))
    for backend, weights, n, k, *counts in asked:
        assert backend in ("blackwell", "geforce") and (weights, n, k) in ((2, 768, 2048), (1, 2048, 768))
        assert len(counts) == 128 and sum(counts) in (8, 128, 512) and max(counts) <= sum(counts) / 8
    assert len({tuple(counts) for _, _, _, _, *counts in asked}) == 3
    assert experts.floor_us("blackwell", "down", 1) == 8 * 2048 * 768 * (0.5 + 1 / 16) / 8e6


LAUNCHES = [{"start_us": s, "end_us": e, "critical": c} for s, e, c in ((1, 4, "a"), (4, 6, "b"), (6, 9.25, "c"))]


def test_a_models_time_is_from_end_to_end_of_the_last_two_calls(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(model_times, "simulated_calls", lambda *a, **k: asked.append((a, k)) or {"launches": LAUNCHES})
    model_times.us_of.cache_clear()
    assert model_times.us_of(f"{tmp_path}/build/lib.so", "1x2x3", None) == 3.25
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission/submission.py").touch()
    assert model_times.us_of(f"{tmp_path}/build/lib.so", "4x5x6", "tile") == 3.25
    library = f"{tmp_path}/build/lib.so"
    assert asked == [
        (((1, 2, 3), "blackwell", model_times.CALLS),
         {"root": model_times.ROOT, "NVFP4_LIBRARY": library, "NVFP4_BLACKWELL_CONFIG": ""}),
        (((4, 5, 6), "blackwell", model_times.CALLS),
         {"root": tmp_path, "NVFP4_LIBRARY": library, "NVFP4_BLACKWELL_CONFIG": "tile"}),
    ]  # fmt: skip
    model_times.us_of.cache_clear()


def test_every_variant_is_simulated_at_every_shape_by_its_tile_and_clock(monkeypatch, tmp_path, capsys):
    asked = []
    monkeypatch.setattr(model_times, "us_of", lambda *words: asked.append(words) or float(len(asked)))
    shapes = model_times.benchmark_shapes(model_times.ROOT)
    variants = [
        f"--variant=old=abc:{tmp_path}/a.so",
        f"--variant=new=def:{tmp_path}/b.so:{shapes[0]}=t1,{shapes[1]}=t2",
    ]
    files = ["--json", str(tmp_path / "times.json")]
    assert model_times.main([*variants, "--sm-ghz", "new=1.5", *files]) == 0
    written = json.loads((tmp_path / "times.json").read_text())
    assert written["commits"] == {"old": "abc", "new": "def"} and written["sm_ghz"] == {"new": 1.5}
    assert written["tiles"] == {"old": {}, "new": {shapes[0]: "t1", shapes[1]: "t2"}}
    assert written["times"]["old"] == {shape: float(i) for i, shape in enumerate(shapes, 1)}
    assert asked == [
        *((f"{tmp_path}/a.so", shape, None, None, False) for shape in shapes),
        *((f"{tmp_path}/b.so", s, t, 1.5, False) for s, t in zip(shapes, ("t1", "t2", None, None), strict=True)),
    ]
    assert (written["format"], written["chip"]) == ("model-times-1", "b200")
    assert written["error"] and written["chip_sha256"]
    assert capsys.readouterr().out.splitlines()[0].startswith("old {")
    asked.clear()
    assert model_times.main([variants[0], "--shapes", "1x2x3,4x5x6", *files]) == 0
    assert [words[1] for words in asked] == ["1x2x3", "4x5x6"]


def test_the_geforce_page_is_simulated_anew_on_request_alone(monkeypatch, tmp_path):
    page, record = tmp_path / "page.md", tmp_path / "record.json"
    monkeypatch.setattr(geforce, "PAGE", page)
    monkeypatch.setattr(geforce, "simulate", lambda: ["new"])
    monkeypatch.setattr(geforce, "render", json.dumps)
    record.write_text('{"ours": ["old"], "theirs": 1}')
    assert geforce.main(["--record", str(record)]) == 0
    assert json.loads(page.read_text()) == {"ours": ["old"], "theirs": 1}
    assert geforce.main(["--record", str(record), "--simulate"]) == 0
    assert json.loads(page.read_text()) == json.loads(record.read_text()) == {"ours": ["new"], "theirs": 1}
    record.unlink()
    assert geforce.main(["--record", str(record), "--simulate"]) == 0
    assert json.loads(record.read_text()) == {"ours": ["new"]}


def test_cutlass_is_run_anew_on_request_with_the_columns_of_both_products(monkeypatch, tmp_path):
    """The compiler and the program are stand-ins: what it is given, and the rows that come of it."""
    asked, built = [], []

    def run(command, env, **_):
        asked.append([str(word) for word in command[1:]])
        assert (env["NVFP4_SIMULATE_TIME"], env["NVFP4_SIMULATE_VALUES"]) == ("rtx5090", "0")
        launches = [{"start_us": 0, "end_us": 9}, {"start_us": 10, "end_us": 12.346 + len(asked)}]
        Path(env["NVFP4_SIMULATE_JSON"]).write_text(json.dumps({"time": {"launches": launches}}))

    monkeypatch.setattr(geforce, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(geforce, "render", json.dumps)
    monkeypatch.setattr(geforce.cutlass, "build", lambda example, sources: built.append(example) or tmp_path / "79a")
    monkeypatch.setattr(geforce.subprocess, "run", run)
    record = tmp_path / "record.json"
    assert geforce.main(["--record", str(record), "--cutlass", str(tmp_path)]) == 0
    assert [example.name for example in built] == ["79a"]
    for words, (m, n, k) in zip(asked, geforce.SHAPES, strict=True):
        assert {f"--m={m}", f"--n={2 * n}", f"--k={k}"} <= set(words), words
    rows = json.loads(record.read_text())["cutlass_79a"]
    assert [row["alone_us"] for row in rows] == [3.35, 4.35, 5.35, 6.35], "the last launch, from its start"
    assert [tuple(row["shape"]) for row in rows] == list(map(tuple, geforce.SHAPES))


def test_each_public_kernel_is_built_and_run_beside_ours(monkeypatch, tmp_path):
    """Compilers and processes are stand-ins: what they are given, and the rows that come of it."""
    made, ran = [], []

    class Given(Sources):
        def checkout(self, repository):
            return tmp_path / repository

        def commit(self, repository):
            return f"commit of {repository}"

    monkeypatch.setattr(public_kernels, "string_of", lambda path, name: f"// {path} {name}\n")
    monkeypatch.setattr(public_kernels, "compile_object", lambda *words: made.append(words) or tmp_path / "a.o")
    monkeypatch.setattr(public_kernels, "link", lambda objects, path, shared: path if shared else None)
    monkeypatch.setattr(
        public_kernels, "run", lambda words, settings: ran.append((words, settings)) or {"back_to_back_us": len(ran)}
    )
    monkeypatch.setattr(
        public_kernels,
        "simulated_calls",
        lambda *words, **chip: {"launches": LAUNCHES, "asked": ran.append((words, chip))},
    )
    rows = list(public_kernels.rows(Given(tmp_path / "cache"), []))
    cases = [(kernel, case) for kernel in public_kernels.KERNELS for case in kernel.shapes]
    assert [(row["kernel"], row["case"]) for row in rows] == [(k.label, public_kernels.name_of(c)) for k, c in cases]
    assert len({words[0] for words in made}) == len(cases), "a folder for each kernel and case"
    for (kernel, case), row, (source, arch, flags, cache, commit) in zip(cases, rows, made, strict=True):
        call, buffers, sizes = public_kernels.call_of(kernel, case)
        folder = source.parent
        assert (
            row["published_us"] == kernel.shapes[case] and row["commit"] == commit == f"commit of {kernel.repository}"
        )
        assert (arch, cache, flags) == ("100a", tmp_path / "cache", ["-I", str(folder), *public_kernels.FLAGS])
        text = source.read_text()
        assert call in text and f"call < {public_kernels.CALLS};" in text and ", ".join(map(str, buffers)) in text
        assert text.startswith(f"// {tmp_path / kernel.repository / kernel.file} {kernel.string}\n")
        assert "#include <algorithm>" in (folder / "torch/library.h").read_text()
        assert (
            (folder / "ATen/core/Tensor.h").read_text()
            == (folder / "ATen/ATen.h").read_text()
            == "#include <torch/library.h>\n"
        )
        words = [public_kernels.CHILD, str(tmp_path / "cache/libraries" / f"{source.stem}.so"), *map(str, sizes)]
        assert (words, public_kernels.SETTINGS) in ran
    grouped = [row for row in rows if row["problem"] == "grouped"]
    assert grouped
    for row in grouped:
        taken = [(ran[at - 1][1]["NVFP4_GROUPED_CONFIG"], tile) for tile, at in row["tiles_us"].items()]
        assert [asked for asked, _ in taken] == [tile for _, tile in taken] == list(public_kernels.GROUPED_TILES)
    assert not any("tiles_us" in row for row in rows if row["problem"] != "grouped")
    single = next((k, c) for k, c in cases if k.problem == "single")[1]
    m, n, k = map(int, single.split("x"))
    assert (
        ((m, n // 2, k), "blackwell", public_kernels.CALLS),
        {"NVFP4_SIMULATE_TIME": "b200", "machine_code": False},
    ) in ran
    (only,) = {
        row["kernel"] for row in public_kernels.rows(Given(tmp_path / "cache"), [public_kernels.KERNELS[0].label])
    }
    assert only == public_kernels.KERNELS[0].label


def test_the_calls_give_each_tensor_once_and_in_the_kernels_order():
    dual = re.sub(r"at::Tensor c = ", "", public_kernels.gau_dual_call())
    assert re.findall(r"d\[(\d)\]", dual) == list("6012345"), "c is made first, then given last"
    assert dual.endswith(", c)")
    group = public_kernels.gau_group_call([40, 16])
    parts = [re.findall(r"d\[(\d)\]", part) for part in re.split(r"\}, \{(?=at::)", group)]
    assert parts == [["0", "4"], ["1", "5"], ["2", "6"], ["3", "7"], ["8", "8"]]
    assert "* 0}" in group and "* 48}" in group, "40 rows take 48 columns"


def test_times_are_of_the_last_call_behind_others_and_of_the_first(monkeypatch):
    assert public_kernels.times_of(LAUNCHES) == {"back_to_back_us": 3.25, "isolated_us": 3, "critical": "c"}
    assert public_kernels.times_of([x for x in LAUNCHES for _ in (0, 1)])["back_to_back_us"] == 3.25


def test_rows_that_were_kept_make_room_for_new_ones_in_the_kernels_order(monkeypatch, tmp_path, capsys):
    labels = [kernel.label for kernel in public_kernels.KERNELS]
    times = {"theirs": {"back_to_back_us": 2.5}, "ours": {"back_to_back_us": 1.5}}
    result = tmp_path / "rows.json"
    old = [{"kernel": label, "case": case, "kept": True} for label in labels[:2] for case in ("x", "y")]
    result.write_text(json.dumps({"rows": old[::-1]}))
    asked = []
    monkeypatch.setattr(public_kernels, "RESULT", result)
    monkeypatch.setattr(public_kernels, "Sources", lambda cache, given: SimpleNamespace(cache=cache, given=given))
    monkeypatch.setattr(
        public_kernels, "rows", lambda s, only: asked.append((s, only)) or [{"kernel": labels[0], "case": "x"} | times]
    )
    assert public_kernels.main(["--checkout", f"a/b={tmp_path}", "--cache", "c", "--only", "one", "two"]) == 0
    ((sources, only),) = asked
    assert (sources.cache, sources.given, only) == (Path("c"), {"a/b": tmp_path}, ["one", "two"])
    written = json.loads(result.read_text())
    assert written["format"] == "blackwell-public-1" and written["parameters_sha256"] == parameters_digest("b200")
    assert [row.get("older", False) for row in written["rows"]] == [True, False, True, True]
    assert [(row["kernel"], row["case"], "kept" in row) for row in written["rows"]] == [
        (labels[0], "y", True), (labels[0], "x", False), (labels[1], "y", True), (labels[1], "x", True),
    ]  # fmt: skip
    assert capsys.readouterr().out == f"{labels[0]} x 2.5 1.5\n"


def test_a_rule_has_the_fields_that_the_batch_calls_read(root):
    declared = (
        (root / "tests/simulator/tensorcore/batch.c").read_text().partition("struct batch_rule {")[2].partition("}")[0]
    )
    names = [name for name, _ in tensorcore.Rule._fields_]
    assert names == tensorcore.RULE_FIELDS.split() == re.findall(r"(\w+)(?=[,;])", declared)


def test_the_record_is_of_the_public_kernels_as_they_are_listed():
    """Each row has the kernel's repository and file, its problem, and the published time of each case."""
    rows = json.loads(public_kernels.RESULT.read_text())["rows"]
    names = ("kernel", "repository", "file", "problem", "case", "published_us")
    listed = [
        (kernel.label, kernel.repository, kernel.file, kernel.problem, public_kernels.name_of(case), us)
        for kernel in public_kernels.KERNELS
        for case, us in kernel.shapes.items()
    ]
    assert [tuple(row[name] for name in names) for row in rows] == listed
