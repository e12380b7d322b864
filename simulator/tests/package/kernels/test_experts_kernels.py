"""The experts' kernels on the simulator: every tile gives the reference's bits and is clean in every mode."""

from __future__ import annotations

import pytest

from scripts.common import tile_table
from simulator.tests.package.kernels.simulated import BACKENDS, simulate

PROGRAM = """
import json, os, sys
import torch
from reference.extended_reference import Extension
from tests.submission.experts.experts_kit import call, random_problem, wrong
from tests.submission.extended.extended_kit import exact_case, with_activation
failed = []
for tile, counts, (n, k), output, weights, blocked, tokens, *activation in json.loads(sys.argv[1]):
    os.environ["NVFP4_EXPERTS_CONFIG"] = tile
    nvfp4 = output == "nvfp4"
    plain, weights = weights < 0, max(weights, 0)
    how = {"tokens": tokens, "spare": 3, "blocked": blocked, "weights": weights}
    one, two = torch.tensor(0.01), None if plain else torch.tensor(0.02)
    numbers = 0.5 + torch.arange(7).float() / 7
    options = Extension(plain, output, one, two, numbers, torch.tensor(2.0) if nvfp4 else None)
    if not plain:
        options = options._replace(limit=2.0, alpha=1.702, beta=1.0)
    exact = Extension(plain, output, None, None, torch.full((1,), 0.5), torch.tensor(0.07) if nvfp4 else None)
    if activation:
        options = with_activation(options, *activation, n)
        exact = with_activation(exact, *activation, n, exact=True)
    try:
        problem = random_problem(counts, n, k, options, **how)
        found = wrong(problem, call(problem))
        problem = random_problem(counts, n, k, exact, make=exact_case, **how)
        found = found or wrong(problem, call(problem), exactly=True)
    except RuntimeError as error:
        found = str(error)
    if found:
        failed.append([tile, counts, n, k, output, weights, plain, blocked, tokens, found])
print(json.dumps(failed))
"""
MODES = ["eager", "late", "reverse", "random:1", "poison"]
EVERY = [
    ("", (2, 0, 3, 1), (64, 192), "nvfp4", 8, (False, True), "counts"),
    ("", (1, 17, 0, 0, 2), (128, 64), "nvfp4", 64, (True, True), "offsets"),
    ("", (0, 33), (64, 128), "bfloat16", 32, (False, False), "padded"),
    ("", (5, 1), (200, 64), "float16", 0, (False, False), "ends"),
    ("", (20, 0, 4), (128, 192), "float16", 1, (False, True), "padded"),
    ("", (7, 9), (100, 192), "bfloat16", -1, (False, True), "counts"),
    ("", (3, 130, 0), (192, 64), "nvfp4", -1, (True, False), "counts"),
    ("", (1, 1, 1), (64, 11 * 128), "float16", 0, (False, True), "counts"),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
def test_every_layout_and_output_is_right_and_clean(backend, mode, tmp_path):
    """Each layout runs in one of the modes."""
    runs = EVERY[MODES.index(mode) :: len(MODES)]
    failed, report = simulate(backend, mode, runs, tmp_path, PROGRAM)
    assert failed == []
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["tensor_macs"] > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_activations_and_biases_are_right_and_clean(backend, tmp_path):
    """In the smallest tile and the largest one."""
    names = tile_table.experts_names(backend)
    runs = [
        (names[0], (2, 0, 3), (75, 192), "bfloat16", 0, (False, True), "counts", "gelu_tanh"),
        (names[0], (1, 4), (64, 64), "nvfp4", -1, (False, True), "padded", "relu2"),
        (names[-1], (1, 0, 40), (64, 192), "nvfp4", 8, (False, True), "counts", "relu2"),
        (names[-1], (33, 2), (100, 64), "float16", -1, (False, False), "counts", "silu"),
    ]
    failed, report = simulate(backend, "random:1", runs, tmp_path, PROGRAM)
    assert failed == []
    assert report["verdict"] == "clean", report["findings"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_tile_is_right_at_its_tails(backend, tmp_path):
    runs = []
    for i, (tile, members) in enumerate(tile_table.experts_tiles(backend).items()):
        rows = int(tile.removeprefix("m"))
        counts = (rows + 1, 0, 2) if rows < 64 else (0, rows - 3)
        if members.get("m_blocks", 1) > 1:
            counts = (rows + 40, 2, 2 * rows + 1, 0)  # shared out evenly among two and three tiles
        if i % 2 == 0:
            runs.append((tile, counts, (72, 192), "bfloat16", 0, (False, i % 4 == 0), "counts"))
        else:
            runs.append((tile, counts, (192, 64), "nvfp4", -1, (False, i % 4 == 1), "padded"))
    failed, report = simulate(backend, "eager", runs, tmp_path, PROGRAM)
    assert failed == []
    assert report["verdict"] == "clean", report["findings"]


MANY = """
import json, os, sys
import torch
from reference import nvfp4
from submission import grouped_plain_gemm
generator, wrong = torch.Generator().manual_seed(1), []
experts, n, k = 1024, 40, 320
counts = torch.zeros(experts, dtype=torch.int32)
counts[torch.randperm(experts, generator=generator)[:40]] = torch.arange(40, dtype=torch.int32) % 3
rows = int(counts.sum())
sizes = (rows,), (experts, n)
a, b = (torch.randint(0, 256, (*size, k // 2), dtype=torch.uint8, generator=generator) for size in sizes)
sfa, sfb = (torch.full((*size, k // 16), 0x38, dtype=torch.uint8) for size in sizes)
owner = torch.repeat_interleave(torch.arange(experts), counts)
weights = nvfp4.decode(b[owner].flatten(0, 1), sfb[owner].flatten(0, 1)).double().unflatten(0, (rows, n))
want = torch.bmm(weights, nvfp4.decode(a, sfa).double().unsqueeze(-1)).squeeze(-1).half()
for tile in json.loads(sys.argv[1]):
    os.environ["NVFP4_EXPERTS_CONFIG"] = tile
    if not torch.equal(grouped_plain_gemm(a, b, sfa, sfb, counts=counts, scale_layout="linear"), want):
        wrong.append(tile)
print(json.dumps(wrong))
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctas_that_take_tile_after_tile_are_right_and_clean(backend, tmp_path):
    """1,024 experts, most without tokens; more tiles than run at once, and a ring that goes round within a tile."""
    failed, report = simulate(
        backend, "random:2", tile_table.experts_names(backend)[-2:-1], tmp_path, MANY, NVFP4_SIMULATE_SMS="8"
    )
    assert failed == []
    assert report["verdict"] == "clean", report["findings"]


OTHER_ROWS = """
import json, os, sys
import torch
from reference.extended_reference import Extension
from submission import grouped_gated_gemm
from tests.submission.experts.experts_kit import arguments, random_problem
problem = random_problem((150, 2), 64, 448, Extension(scale_gate=torch.tensor(0.01)))
tensors, options = arguments(problem)
wrong, want = [], None
for tile in json.loads(sys.argv[1]):
    os.environ["NVFP4_EXPERTS_CONFIG"] = tile
    for counts in ([150, 2], [3, 0], [77, 40], [-1, 150], [2**31 - 1, 5]):
        found = grouped_gated_gemm(*tensors, **options | {"counts": torch.tensor(counts, dtype=torch.int32)})
        if want is None:
            want = found
        rows = min(max(counts[0], 0), 150)
        if not torch.equal(found[:rows], want[:rows]):
            wrong.append([tile, counts])
a, b1, b2, sfa, *sfb = tensors
if grouped_gated_gemm(a[:0], b1, b2, sfa[:0], *sfb, **options).shape != (0, 64):
    wrong.append("no rows")
print(json.dumps(wrong))
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rows_bits_do_not_depend_on_other_rows_nor_on_the_tile(backend, tmp_path):
    """And malformed counts stay inside the tensors, also where these have no rows."""
    names = tile_table.experts_names(backend)
    failed, report = simulate(backend, "eager", ["", names[0], names[-1]], tmp_path, OTHER_ROWS)
    assert failed == []
    assert report["verdict"] == "clean", report["findings"]


HALVES = """
import json
from tests.submission.experts.halves import wrong_on
print(json.dumps(wrong_on("cpu")))
"""


@pytest.mark.parametrize("tile", ["", *tile_table.experts_names("hopper")])
@pytest.mark.parametrize("mode", ["late", "poison"])
def test_rows_of_16_bits_are_right_and_clean(tile, mode, tmp_path):
    """On Hopper, which alone multiplies them; each tile has a kernel for fp16 and one for bf16."""
    failed, report = simulate("hopper", mode, [], tmp_path, HALVES, NVFP4_EXPERTS_CONFIG=tile)
    assert failed == []
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["tensor_macs"] > 0
