"""The files for SOL-ExecBench: by that board's schema, and as cases of eval.py."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import types

import jsonschema
import pytest
import torch

from eval.cases import read_cases
from reference import nvfp4
from reference.reference import ref_kernel
from scripts.release.execbench import __main__ as execbench

TEXT, OBJECT = {"type": "string", "minLength": 1}, {"type": "object"}
TENSORS = {
    "type": "object",
    "additionalProperties": {
        "type": "object", "required": ["shape", "dtype"], "additionalProperties": False,
        "properties": {"shape": {"type": "array", "items": TEXT}, "dtype": TEXT, "description": TEXT},
    },
}  # fmt: skip


def schema(required, **others):
    """JSON schema of an object with exactly these members."""
    return {"type": "object", "required": list(required), "additionalProperties": False,
            "properties": {**required, **others}}  # fmt: skip


# docs/definition.md, workload.md and solution.md of NVIDIA/SOL-ExecBench at 8d2237d, as far as these files go.
DEFINITION = schema(
    {"name": TEXT, "axes": OBJECT, "inputs": TENSORS, "outputs": TENSORS, "reference": TEXT},
    op_type=TEXT, description=TEXT, custom_inputs_entrypoint=TEXT,
)  # fmt: skip
WORKLOAD = schema(
    {"uuid": TEXT, "axes": {"additionalProperties": {"type": "integer"}}, "inputs": OBJECT}, tolerance=OBJECT
)
SPEC = schema(
    {"languages": {"const": ["cuda_cpp"]}, "target_hardware": {"items": {"enum": ["B200", "LOCAL"]}},
     "entry_point": {"pattern": r"^[^:]+\.cu::run$"}},
    dependencies={"const": []}, destination_passing_style={"const": True}, binding={"const": "torch"},
    compile_options=schema({}, **{name: {"items": TEXT} for name in ("cflags", "cuda_cflags", "ld_flags")}),
)  # fmt: skip
SOURCE = schema({"path": {"pattern": r"^[^/.][^:]*$"}, "content": TEXT})
SOLUTION = schema(
    {"name": TEXT, "definition": TEXT, "author": TEXT, "spec": SPEC, "sources": {"items": SOURCE, "minItems": 1}},
    description=TEXT,
)


@pytest.fixture(scope="module")
def reference():
    """The definition's reference, from its text as the board receives it."""
    module = types.ModuleType("reference_of_the_definition")
    exec(execbench.definition()["reference"], module.__dict__)
    return module


def test_the_files_are_of_the_boards_schema():
    definition, workloads = execbench.definition(), execbench.workloads()
    jsonschema.validate(definition, DEFINITION)
    known = {*definition["axes"]}
    assert all({*tensor["shape"]} <= known for of in ("inputs", "outputs") for tensor in definition[of].values())
    for workload in workloads:
        jsonschema.validate(workload, WORKLOAD)
        assert {*workload["inputs"]} == {*definition["inputs"]} and {*workload["axes"]} == {"M"}
    assert len({workload["uuid"] for workload in workloads}) == len(workloads)
    for target in execbench.HARDWARE:
        solution = execbench.solution(target)
        jsonschema.validate(solution, SOLUTION)
        paths = [source["path"] for source in solution["sources"]]
        assert len(set(paths)) == len(paths) and solution["spec"]["entry_point"].split("::")[0] in paths
        assert solution["definition"] == definition["name"]


def test_the_boards_definition_of_the_operation():
    definition = execbench.definition()
    shapes = {name: (tensor["shape"], tensor["dtype"]) for name, tensor in definition["inputs"].items()}
    codes, scales = "float4_e2m1fn_x2", "float8_e4m3fn"
    assert shapes == {
        "a": (["M", "K_packed"], codes),
        "b1": (["N", "K_packed"], codes),
        "b2": (["N", "K_packed"], codes),
        "sfa": (["M", "K_groups"], scales),
        "sfb1": (["N", "K_groups"], scales),
        "sfb2": (["N", "K_groups"], scales),
    }
    assert definition["outputs"] == {"c": {"shape": ["M", "N"], "dtype": "float16"}}
    axes = definition["axes"].items()
    assert {name: (axis["type"], axis.get("value", axis.get("expression"))) for name, axis in axes} == {
        "M": ("var", None),
        "N": ("const", 4096),
        "K": ("const", 7168),
        "K_packed": ("expr", "K // 2"),
        "K_groups": ("expr", "K // 16"),
    }
    workloads = execbench.workloads()
    assert [workload["axes"]["M"] for workload in workloads] == [1, 17, 128, 130, 256, 512, 1024]
    tolerances = [workload["tolerance"] for workload in workloads]
    assert tolerances == [{"max_atol": 0.001, "max_rtol": 0.001, "required_matched_ratio": 0.9999}] * 7
    # The board identifies a workload by its uuid, which must not change.
    assert workloads[1]["uuid"] == "5d226145-4a74-5e83-b104-208b86d604f5"
    assert {of: execbench.solution(of)["spec"]["target_hardware"] for of in ("b200", "h200")} == {
        "b200": ["B200"],
        "h200": ["LOCAL"],
    }


def test_every_source_is_there_and_compiles_as_the_board_compiles_it(tmp_path):
    """Compiles two C files with the C++ compiler and the board's and solution's flags: all includes exist."""
    solution = execbench.solution("b200")
    files = {source["path"]: source["content"] for source in solution["sources"]}
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    top = [path for path in files if "/" not in path]
    inner = {path for path in files if path.endswith((".c", ".cu")) and "/" in path}
    assert {files[path].split('"')[1] for path in top if path != "binding.cu"} == inner
    flags = solution["spec"]["compile_options"]["cflags"]
    for name in ("core_custom_kernel.c", "cpu_extended_epilogue.c"):
        done = subprocess.run(
            ["g++", "-fPIC", "-std=c++20", *flags, "-fsyntax-only", name], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_the_solution_has_makes_flags():
    """The Makefile's flags: no contraction, the target's chips, the target's macros."""
    options = execbench.solution("b200")["spec"]["compile_options"]
    assert options["cflags"][:5] == ["-x", "c", "-std=gnu11", "-O3", "-ffp-contract=off"]
    assert options["cuda_cflags"][0] == "-O3" and options["ld_flags"] == ["-lcuda"]
    assert [flag for flag in options["cuda_cflags"] if "gencode" in flag] == ["-gencode=arch=compute_100a,code=sm_100a"]
    assert (
        options["cflags"][5:]
        == options["cuda_cflags"][2:]
        == [
            "-D_GNU_SOURCE",
            "-DNVFP4_TUNE_DEFAULT=true",
            "-DNVFP4_HAVE_BLACKWELL",
            "-DNVFP4_WITHOUT_GROUPED",
            "-DNVFP4_WITHOUT_EXTENDED",
            "-DNVFP4_WITHOUT_QUANTIZE",
            "-DNVFP4_WITHOUT_EXPERTS",
        ]
    )


def test_the_definitions_reference_is_this_operation(reference):
    torch.manual_seed(1)
    inputs = reference.generate_inputs({"M": 5, "N": 24, "K": 128}, torch.device("cpu"))
    found = reference.run(**inputs)
    tensors = [tensor.unsqueeze(-1) for tensor in inputs.values()]
    want = ref_kernel((*tensors, torch.empty(5, 24, 1, dtype=torch.half)))[..., 0]
    assert torch.allclose(found, want, rtol=2e-3, atol=1e-3) and found.dtype == want.dtype
    assert want.abs().max() > 1 and nvfp4.decode_scales(inputs["sfa"]).max() <= 1


def test_eval_takes_the_workloads_as_cases(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["execbench", "--output", str(tmp_path)])
    assert execbench.main() == 0
    cases = read_cases(tmp_path / "cases.txt")
    sizes = [json.loads(line)["axes"] for line in (tmp_path / "workload.jsonl").read_text().splitlines()]
    assert [tuple(case.shape) for case in cases] == [(size["M"], 4096, 7168, 1) for size in sizes]
    assert len({case.seed for case in cases}) == len(cases) and {case.problem.name for case in cases} == {"dual_gemm"}


def test_the_boards_own_loader_accepts_them(tmp_path):
    """The folder of an installed NVIDIA/SOL-ExecBench."""
    if importlib.util.find_spec("sol_execbench") is None:
        pytest.skip("sol_execbench is not installed")
    from sol_execbench.core import Definition, Solution, Workload

    definition = Definition(**execbench.definition())
    for workload in execbench.workloads():
        m = Workload(**workload).axes["M"]
        assert definition.get_output_shapes({"M": m}) == {"c": (m, execbench.N)}
    assert Solution(**execbench.solution()).definition == definition.name


def test_the_reason_for_no_solution_is_reported(monkeypatch, capsys, tmp_path):
    def refuse(target):
        raise execbench.BundleError(f"nothing fits {target}")

    monkeypatch.setattr(execbench, "solution", refuse)
    monkeypatch.setattr(sys, "argv", ["execbench", "--output", str(tmp_path / "none")])
    assert execbench.main() == 1
    assert capsys.readouterr().err == "nothing fits b200\n" and not (tmp_path / "none").exists()
