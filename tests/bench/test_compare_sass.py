"""The comparison of machine code: what counts as the same kernel, and that one instruction's difference is found."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from scripts.bench import compare_sass
from scripts.bench.compare_sass import Instruction, Kernel, SassError, difference, main, pairs

KERNEL = """
namespace {space} {{
template <int count> __global__ void {name}(float *x) {{
    for (int i = 0; i < count; i++) {{
        x[i] = x[i] * {factor}f + {addend}f;
    }}
}}
template __global__ void {name}<3>(float *);
template __global__ void {name}<5>(float *);
}}
__global__ void {plain}(int *x) {{
    atomicAdd(x, {step});
}}
"""
ONE = {"space": "one", "name": "scale_kernel", "plain": "count_kernel", "factor": "2.5", "addend": "1.0", "step": "3"}


@pytest.fixture(scope="module")
def compiled(root, tmp_path_factory):
    """Compiles the kernels with some words changed."""
    found = subprocess.run([root / "scripts/find_nvcc.sh"], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip(found.stderr.strip())
    try:
        compare_sass.tool("cuobjdump"), compare_sass.tool("nvdisasm")
    except SassError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("sass")

    def build(file, **changed):
        (folder / f"{file}.cu").write_text(KERNEL.format(**ONE | changed))
        target = folder / f"{file}.o"
        arch = "-gencode=arch=compute_90a,code=sm_90a"
        subprocess.run([found.stdout.strip(), arch, "-c", "-o", target, folder / f"{file}.cu"], check=True)
        return str(target)

    build.first = build("first")
    return build


def test_names_do_not_count(compiled, capsys):
    renamed = compiled("renamed", space="another", name="longer_scale_kernel", plain="addition_kernel")
    assert main([compiled.first, renamed]) == 0
    assert "3 of 3 kernels are identical" in capsys.readouterr().out


def test_a_changed_constant_is_found_in_the_kernels_that_hold_it(compiled, tmp_path, capsys):
    assert main([compiled.first, compiled("changed", factor="2.75"), "--json", str(tmp_path / "rows.json")]) == 1
    rows = {row["kernel"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert {name: row["same"] for name, row in rows.items()} == {
        "scale_kernel<3>": False,
        "scale_kernel<5>": False,
        "count_kernel": True,
    }
    assert rows["scale_kernel<3>"]["differing"] == 1  # what loads the factor
    assert " -> " in rows["scale_kernel<3>"]["first"]
    assert "1 of 3 kernels are identical" in capsys.readouterr().out


def test_a_kernel_of_one_side_alone_is_a_difference(compiled):
    both = compare_sass.kernels(Path(compiled.first))
    rows = compare_sass.compare(both, [kernel for kernel in both if kernel.name != "scale_kernel<5>"])
    assert {row.kernel: row.same for row in rows} == {
        "count_kernel": True,
        "scale_kernel<3>": True,
        "scale_kernel<5>": False,
    }


def test_an_argument_that_is_neither_a_file_nor_a_commit_is_refused(tmp_path, capsys):
    assert main([str(tmp_path / "missing.o"), "HEAD"]) == 2
    assert "missing.o is neither a file nor a commit" in capsys.readouterr().err


def kernel(symbol, *texts):
    return Kernel("sm_90a", symbol, 8, tuple(Instruction(text, text) for text in texts))


def test_kernels_are_matched_by_template_arguments_then_by_their_instructions():
    before = [
        kernel("_Z6a_kernelI4tileILi1ELi2EEEvv", "MOV", "EXIT"),
        kernel("_Z6a_kernelI4tileILi1ELin3EEEvv", "MOV", "EXIT"),
        kernel("_Z8x_kernelv", "LDG", "STG", "EXIT"),
        kernel("_Z8y_kernelv", "IADD3", "IMAD", "EXIT"),
    ]
    after = [
        kernel("_Z8z_kernelv", "IADD3", "IMAD", "IMAD", "EXIT"),
        kernel("_Z8w_kernelv", "LDG", "STG", "NOP", "EXIT"),
        kernel("_ZN1n6b_kernelINS_4tileILi1ELin3EEEEEvv", "NOP", "EXIT"),
        kernel("_ZN1n6b_kernelINS_4tileILi1ELi2EEEEEvv", "NOP", "EXIT"),
    ]
    found = {one.symbol: other.symbol for one, other in pairs(before, after)}
    assert found == {
        "_Z6a_kernelI4tileILi1ELi2EEEvv": "_ZN1n6b_kernelINS_4tileILi1ELi2EEEEEvv",
        "_Z6a_kernelI4tileILi1ELin3EEEvv": "_ZN1n6b_kernelINS_4tileILi1ELin3EEEEEvv",
        "_Z8x_kernelv": "_Z8w_kernelv",
        "_Z8y_kernelv": "_Z8z_kernelv",
    }


def test_an_inserted_instruction_counts_once_though_branches_move():
    before = (Instruction("IADD3 R1", "a"), Instruction("BRA 0x40", "b"), Instruction("EXIT", "c"))
    after = (before[0], Instruction("NOP", "d"), Instruction("BRA 0x50", "e"), before[2])
    assert difference(before, after) == (1, "1: nothing -> NOP")


def test_another_encoding_of_the_same_text_is_a_difference():
    before, after = (Instruction("EXIT", "1"),), (Instruction("EXIT", "2"),)
    assert difference(before, after) == (1, "0: EXIT -> EXIT (other scheduling)")
