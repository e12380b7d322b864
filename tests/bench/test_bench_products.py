"""compare.py and check_gpu.py on the GEMM and the matrix-vector product: variants, baselines, and what is refused."""

from __future__ import annotations

import json

import pytest
import torch

from reference import nvfp4
from reference.problems.gemv import Gemv
from scripts.bench import compare
from scripts.bench.groups import group_variants
from scripts.bench.products import product_checks, product_variants

SHAPES = {"gemm": "40x24x128x2", "gemv": "40x128x3"}


@pytest.mark.parametrize("name", SHAPES)
def test_ours_and_the_baselines_are_timed_and_recorded(name, library_path, tmp_path):
    record = tmp_path / "record.json"
    options = ["--problem", f"nvfp4_{name}", "--device", "cpu", "--shapes", SHAPES[name], "--inputs", "2"]
    options += [
        "--baselines",
        ",".join(product_variants.DEFAULTS[name]),
        "--repeats",
        "2",
        "--json",
        str(record),
        "--commit",
        "none",
    ]
    assert compare.main(options) == 0
    written = json.loads(record.read_text())
    assert set(written["median_us"]) == {"auto", *product_variants.DEFAULTS[name]} and written["left_out"] == {}
    assert all(list(times) == [SHAPES[name]] for times in written["median_us"].values())


def test_a_wrong_result_of_either_kind_is_reported():
    problem = product_variants.Problem("gemv", 40, 128, 3, 2, "cpu")
    assert problem.shape == Gemv(40, 128, 3)
    wants = product_variants.wanted(problem)
    right = product_variants.baseline(problem, "cublas_product")
    assert product_variants.check(problem, "cublas_product", right, wants) == ""

    def off(i):
        right(i)
        problem.output(i)[7, 0, 1] += 16

    assert product_variants.check(problem, "auto", off, wants).startswith("auto: input 0: 1 of 120 elements differ")
    assert "input 0: relative error nan" in product_variants.check(problem, "cublas_product", lambda i: None, wants)


def test_the_copy_moves_as_many_bytes_as_the_problem_has():
    # 41 rows of 64 + 8 bytes read and 40 numbers written, in each of three batches
    assert 2 * product_variants.copied_bytes(Gemv(40, 128, 3)) == 3 * (41 * 72 + 2 * 40)


@pytest.mark.parametrize("name", SHAPES)
def test_the_checks_of_a_gpu_run_on_the_cpu(name, library_path, monkeypatch):
    monkeypatch.setattr(product_checks, "device", "cpu")
    found = list(product_checks.checks(name)["rings"]())
    assert len(found) == 5 and all(ok for _, ok, _ in found), found
    assert set(product_checks.checks(name)) == {"leaderboard", "full", "repeats", "rings"}
    assert torch.isnan(product_checks.poisoned(Gemv(8, 64, 1), 1, "board")[-1]).all()


def emulated(a, b, sfa, sfb, out_dtype, out):
    """torch._scaled_mm as a chip with fp4 tensor cores would compute it: scale factors in blocks of 128 rows x 4."""
    k = 2 * a.shape[1]

    def decoded(codes, factors):
        tiles = factors.view(-(-codes.shape[0] // 128), k // 64, 32, 4, 4, 1).permute(2, 3, 0, 4, 1, 5)
        return nvfp4.decode(codes, nvfp4.from_blocked(tiles, codes.shape[0], k // 16)[..., 0])

    out.copy_(decoded(a, sfa) @ decoded(b.t(), sfb).t())


@pytest.mark.parametrize("kind", ["gemm", "groups"])
def test_torchs_scaled_product_gets_each_operand_with_its_factors(kind, monkeypatch):
    monkeypatch.setattr(torch, "_scaled_mm", emulated)
    if kind == "gemm":
        module, problem = product_variants, product_variants.Problem("gemm", 130, 48, 128, 2, 2, "cpu")
    else:
        module, problem = group_variants, group_variants.Problem("40,130", 48, 128, 2, "cpu")
    call = module.baseline(problem, "scaled_mm")
    assert module.check(problem, "scaled_mm", call, module.wanted(problem)) == ""
