"""Programs that time a host: the CPU kernels, the shim and the harness; and the facts that they record."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from reference.problems.dual_gemm import DualGemm
from reference.problems.group_gemm import GroupGemm
from scripts.bench import compare, cpu, host, provenance
from scripts.rounds import origin

SHAPES = (DualGemm(40, 72, 128, 1), GroupGemm((40, 0, 8), (72, 8, 16), (128, 64, 192)))


def test_an_answer_of_nvidia_smi_or_why_there_is_none(monkeypatch, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\necho " $*"\necho second\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert provenance.nvidia_smi("clocks.mem") == "--query-gpu=clocks.mem --format=csv,noheader"
    tool.write_text("#!/bin/sh\nexit 3\n")
    assert provenance.nvidia_smi("x") == "unknown (CalledProcessError)"
    monkeypatch.setenv("PATH", "")
    assert provenance.nvidia_smi("x") == "unknown (FileNotFoundError)"


# --- the CPU and the host ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_the_cpu_bench_times_after_a_warm_up_and_checks_each_output(monkeypatch, shape):
    times = iter([9.0, 9.0, 9.0, 2.0, 8.0, 3.0, 4.0, 8.0, 4.0, 3.0, 9.0, 9.0])

    def timed_ms(call):
        call()
        return next(times)

    monkeypatch.setattr(cpu, "timed_ms", timed_ms)
    assert cpu.measure(shape, seed=1, repeats=3) == {
        "ours, ms": 3.0,
        "same job, ms": 8.0,
        "matmuls alone, ms": 4.0,
        "ratio, same job": 3.0,  # median of 4, 2 and 3
        "ratio, matmuls alone": 1.5,  # median of 1.5, 1 and 3
    }
    assert next(times, None) is None
    monkeypatch.setattr(cpu, "timed_ms", lambda call: 1.0)  # nothing is computed
    with pytest.raises(RuntimeError, match=f"wrong result at {shape.problem.columns} {shape.text()}: "):
        cpu.measure(shape, seed=1, repeats=1)


def test_the_cpu_bench_writes_samples_of_variants_for_a_round(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(compare, "print_table", lambda *table: None)
    files = [word for name in ("samples", "env") for word in (f"--{name}", str(tmp_path / name))]
    words = ["--variants", "auto,portable", "--shapes", "40x72x128", "--repeats", "2", *files]
    assert cpu.main(words) == 0
    rows = [json.loads(line) for line in (tmp_path / "samples").read_text().splitlines()]
    assert sorted((row["variant"], row["repeat"]) for row in rows) == [
        ("auto", 0), ("auto", 1), ("portable", 0), ("portable", 1),
    ]  # fmt: skip
    env = json.loads((tmp_path / "env").read_text())
    assert env["capability"] is None and set(env["digests"]) == {"auto", "portable"}
    assert {row["chip"] for row in rows} == {env["chip"]} and {row["digest"] for row in rows} == {
        *env["digests"].values()
    }
    assert origin.chip_problems("cpu", env) == [] and origin.env_problems(env) == []
    assert origin.line_problems((tmp_path / "samples").read_bytes(), env) == []
    with pytest.raises(SystemExit):
        cpu.main(["--variants", "auto"])
    assert "unknown: --variants auto" in capsys.readouterr().err


def test_the_host_bench_takes_the_work_in_c_off(monkeypatch, tmp_path, capsys):
    calls = []
    costs = {"shim": [5.0, 6.0, 9.0], "package": [7.0, 8.5, 8.0], "library": [3.0, 4.0, 4.0], "ctypes": [1.0, 0.5, 2.0]}
    order = iter([*costs] * 3)

    def sample_us(call, argument):
        name = next(order)
        calls.append((name, call, argument))
        return costs[name].pop(0)

    monkeypatch.setattr(host, "sample_us", sample_us)
    monkeypatch.setattr(sys, "argv", ["host.py", "--repeats", "3", "--json", str(tmp_path / "x.json")])
    assert host.main() == 0
    written = json.loads((tmp_path / "x.json").read_text())
    assert written.pop("processor") and written.pop("torch") == torch.__version__
    assert written == {"work_us": 3.0, "ctypes_us": 1.0, "shim_us": 3.0, "package_us": 5.0, "goal_us": 4.0}
    said = capsys.readouterr().out
    assert "the shim 3.00 us (goal 4 us), of which the ctypes call 1.00 us; in the package 5.00 us" in said
    by_name = {name: (call, argument) for name, call, argument in calls}
    assert by_name["package"][0] is host.packaged.custom_kernel
    shim = by_name["shim"][0].__globals__
    assert shim["__file__"] == host.packaged.__file__
    assert shim["_have_memory"] is None and host.packaged._have_memory is not None
    assert by_name["library"][0] is shim["_call"]
    assert by_name["library"][1] is by_name["ctypes"][1] and by_name["library"][0](by_name["library"][1]) == 0


def test_the_host_bench_times_the_operators_beside_a_product_of_torch(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(host, "QUEUED_CALLS", 2)
    monkeypatch.setattr(sys, "argv", ["host.py", "--operators", "--repeats", "1", "--json", str(tmp_path / "x.json")])
    assert host.main() == 0
    found = json.loads((tmp_path / "x.json").read_text())["host_us"]
    assert all(us > 0 for times in found.values() for us in times.values())
    assert {name for times in found.values() for name in times} >= {"torch.mm(out=)", "dual_gemm", "gated_gemm"}
    assert "(1.00)" in capsys.readouterr().out
