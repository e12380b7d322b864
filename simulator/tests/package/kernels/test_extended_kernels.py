"""The extended GEMM's kernels on the simulator: every tile gives the reference's bits and is clean in every mode."""

from __future__ import annotations

import re

import pytest

from scripts.common import tile_table
from simulator.tests.package.kernels.simulated import BACKENDS, simulate

WHOLE_K = {"hopper": "m128n64", "blackwell": "m256n64", "geforce": "m128n64"}  # tiles whose CTA takes all of K
LAP_OF_K = {
    "hopper": 11 * 128,
    "blackwell": 11 * 256,
    "geforce": 11 * 128,
}  # more stages than a ring has: it goes round
PROGRAM = """
import json, os, sys
import torch
from reference.extended_reference import Extension
from tests.submission.extended.extended_kit import (
    call, exact_case, of_16_bits, random_case, with_activation, wrong_bits, wrong_values,
)
variable, wrong = os.environ["TILE_VARIABLE"], []
joint_variable = variable if "HOPPER" in variable else "NVFP4_GROUPED_CONFIG"
for tile, (m, n, k), output, weights, blocked, *more in json.loads(sys.argv[1]):
    dtype, activation = (*more, None, None)[:2]
    os.environ[joint_variable if weights not in (0, 1) else variable] = tile
    nvfp4 = output == "nvfp4"
    plain, weights = weights < 0, max(weights, 0)
    tokens = 0.5 + torch.arange(m).float() / m
    one, two = torch.tensor(0.01), None if plain else torch.tensor(0.02)
    options = Extension(plain, output, one, two, tokens, torch.tensor(2.0) if nvfp4 else None)
    if not plain:
        options = options._replace(limit=2.0, alpha=1.702, beta=1.0)
    exact = Extension(plain, output, None, None, torch.full((m,), 0.5), torch.tensor(0.07) if nvfp4 else None)
    if activation:
        options, exact = with_activation(options, activation, n), with_activation(exact, activation, n, exact=True)
    case, exact = random_case(m, n, k, options, weights), exact_case(m, n, k, exact, weights)
    if dtype:
        case, exact = (of_16_bits(one, getattr(torch, dtype)) for one in (case, exact))
    try:
        found = wrong_values(case, call(case, blocked)) or wrong_bits(exact, call(exact, blocked))
    except RuntimeError as error:
        found = str(error)
    if found:
        wrong.append([tile, m, n, k, output, weights, plain, blocked, found])
print(json.dumps(wrong))
"""


MODES = ["late", "reverse", "random:1", "poison"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
def test_every_layout_and_output_is_right_and_clean(backend, mode, tmp_path):
    """Each layout runs in two of the modes."""
    every = [
        ("", (17, 64, 192), "nvfp4", 8, True),
        ("", (1, 128, 64), "nvfp4", 64, False),
        ("", (130, 64, 128), "bfloat16", 32, True),
        ("", (17, 200, 64), "float16", 0, False),
        ("", (40, 128, 192), "float16", 1, True),
        ("", (17, 100, 192), "bfloat16", -1, True),
        ("", (130, 192, 64), "nvfp4", -1, False),
        (WHOLE_K[backend], (17, 64, LAP_OF_K[backend]), "float16", 0, True),
        (WHOLE_K[backend] if backend == "hopper" else "", (17, 64, LAP_OF_K[backend]), "nvfp4", 64, True),
    ]
    runs = [run for i, run in enumerate(every) if (i - MODES.index(mode)) % 4 < 2]
    wrong, report = simulate(backend, mode, runs, tmp_path, PROGRAM)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["tensor_macs"] > 0


# The interleave of gate and up that a Hopper tile can hold (64 otherwise); tiles without a plain product.
LEAST_INTERLEAVE = {"m128n96": 32, "m192n96": 32, "m64n32k8": 32}
NO_PLAIN = ("m128n96", "m192n96")


def runs_of_every_tile(backend):
    """M, N and K that end within a tile: gate and up in one tensor or in two, and plain products."""
    if backend == "geforce":
        two = [(tile, (130, 192, 320), "nvfp4", 0, True) for tile in ("m128n128", "m128n64", "m64n32")]
        joint = {"m128n128": (64, 8, -1), "m64n128": (8, 64, -1), "m64n64": (32, -1)}
        return two + [
            (tile, (65, 320, 320), ("nvfp4", "bfloat16", "float16")[i], weights, i == 0)
            for tile, all_weights in joint.items()
            for i, weights in enumerate(all_weights)
        ]
    if backend == "blackwell":
        tiles = tile_table.tiles(backend).items()
        apart = [name for name, tile in tiles if tile["split_k"] == 1 and tile["stored"] == 0]
        two = [(tile, (130, 192, 320), "nvfp4", 0, i % 2 == 0) for i, tile in enumerate(apart)]
        joint = tile_table.grouped_names(backend)
        return two + [(tile, (130, 320, 320), "bfloat16", (8, 32, 64, -1)[i], True) for i, tile in enumerate(joint)]
    runs = []
    for i, tile in enumerate(tile_table.extended_names(backend)):
        runs.append((tile, (130, 192, 192), ("nvfp4", "bfloat16")[i % 2], LEAST_INTERLEAVE.get(tile, 64), True))
        if tile not in NO_PLAIN:
            runs.append((tile, (33, 192, 192), "nvfp4", -1, i % 2 == 0))
    return runs


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_tile_is_right_at_its_tails(backend, tmp_path):
    wrong, report = simulate(backend, "eager", runs_of_every_tile(backend), tmp_path, PROGRAM)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]


# Activations and biases in every epilogue of a backend.
ACTIVATED = {
    "hopper": [
        ("m128n64", (17, 72, 192), "bfloat16", 0, True, None, "gelu_tanh"),
        ("m64n64k2", (33, 192, 192), "nvfp4", -1, True, "bfloat16", "relu2"),
        ("m8", (5, 200, 192), "float16", -1, False, None, "silu"),
        ("m8", (3, 128, 192), "nvfp4", -1, True, "bfloat16", "relu2"),
        ("m16", (9, 128, 192), "nvfp4", 64, True, None, "relu2"),
        ("m16warps", (13, 72, 64), "float16", 8, True, "bfloat16", "gelu_tanh"),
        ("m256n64", (33, 128, 192), "bfloat16", 64, True, None, "relu2"),
        ("m256n64", (33, 192, 192), "nvfp4", -1, True, None, "gelu_tanh"),
        ("m64n64s", (65, 192, 320), "nvfp4", -1, True, None, "relu2"),
        ("m64n64s", (65, 136, 192), "float16", 0, True, "bfloat16", "gelu_tanh"),
    ],
    "blackwell": [
        ("", (17, 100, 192), "bfloat16", -1, True, None, "relu2"),
        ("", (17, 64, 192), "nvfp4", 8, True, None, "gelu_tanh"),
        ("", (130, 72, 64), "float16", 0, True, None, "silu"),
    ],
    "geforce": [
        ("", (17, 100, 192), "bfloat16", -1, True, None, "relu2"),
        ("m128n128", (17, 64, 192), "nvfp4", 8, True, None, "gelu_tanh"),
        ("m128n128", (17, 128, 64), "nvfp4", 64, False, None, "relu2"),
        ("", (130, 75, 64), "float16", 0, True, None, "silu"),
    ],
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_activations_and_biases_are_right_and_clean(backend, tmp_path):
    wrong, report = simulate(backend, "random:1", ACTIVATED[backend], tmp_path, PROGRAM)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]


# Few rows of A: M, N and K that end within a tile, one warp and two along N, K in one phase and in several.
NARROW = [
    ("m8", (3, 128, 192), "float16", 0, True),
    ("m8", (5, 200, 192), "bfloat16", -1, False),
    ("m8", (8, 128, 1088), "nvfp4", 0, True, "bfloat16"),
    ("m8", (8, 128, 512), "nvfp4", -1, False, "float16"),
    ("m8", (1, 64, 512), "float16", 8, True),
    ("m16", (9, 128, 512), "nvfp4", 64, True),
    ("m16", (20, 72, 192), "float16", 8, False, "bfloat16"),
    ("m16", (16, 320, 64), "bfloat16", 32, True, "float16"),
    ("m16warps", (13, 128, 512), "bfloat16", 1, True, "bfloat16"),
    ("m16warps", (13, 192, 320), "nvfp4", 32, True),
    ("m32", (40, 128, 576), "nvfp4", 8, False, "float16"),
    ("m32", (33, 192, 512), "nvfp4", -1, True, "bfloat16"),
    ("m32", (33, 100, 192), "float16", -1, True),
]
# The same on Blackwell: pairs with no share of K, a product's last rows of B in the first CTA or the second.
TRANSPOSED = [
    ("m128k1", (17, 200, 192), "bfloat16", -1, True, None, "relu2"),
    ("m128k1", (17, 136, 192), "bfloat16", 0, True, None, "gelu_tanh"),
    ("m128k2", (130, 320, 320), "nvfp4", -1, True),
    ("m128k2", (130, 192, 320), "nvfp4", 0, True),
    ("m128k2", (16, 64, LAP_OF_K["blackwell"]), "float16", -1, False),
    ("m128k2", (50, 200, 1536), "float16", 0, False),
    ("m128k4", (40, 300, 1280), "bfloat16", -1, True, None, "gelu_tanh"),
    ("m128k4", (1, 128, 64), "nvfp4", -1, False),
    ("m128k4", (128, 128, 1280), "nvfp4", 0, True, None, "relu2"),
    ("m128k4", (5, 75, 64), "bfloat16", 0, True),
]
# Other tiles with an A of 16 bits: it is arranged first, and multiplied as bf16 by some.
HALVES = [
    ("m128n64", (70, 72, 192), "float16", 0, True, "float16"),
    ("m128n64", (130, 192, 192), "nvfp4", 8, False, "bfloat16"),
    ("m64n64k2", (33, 192, 512), "bfloat16", -1, True, "bfloat16"),
    ("m96n64s", (100, 192, 320), "bfloat16", 64, True, "bfloat16"),
    ("m256n64", (33, 192, 512), "bfloat16", -1, True, "bfloat16"),
    ("m64n32k8", (70, 64, 1088), "nvfp4", 0, True, "bfloat16"),
]


FEW_ROWS = {"hopper": [*NARROW, *HALVES], "blackwell": TRANSPOSED}


@pytest.mark.parametrize("backend", FEW_ROWS)
@pytest.mark.parametrize("mode", ["eager", *MODES])
def test_few_rows_and_a_of_16_bits_are_right_and_clean(backend, mode, tmp_path):
    """Each run in two of the modes."""
    runs = [run for i, run in enumerate(FEW_ROWS[backend]) if (i - ["eager", *MODES].index(mode)) % 5 < 2]
    wrong, report = simulate(backend, mode, runs, tmp_path, PROGRAM)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]


# On three SMs: CTAs that take several tiles, with parts of A dequantized ahead and without, two tiles for a call, and
# equal shares: of one tile, of three that two CTAs each share, and of seven of which one each is whole.
SEVERAL_TILES = [
    ("m256n64", (600, 328, 448), "bfloat16", -1, True, "bfloat16"),
    ("m256n64", (700, 256, 1152), "nvfp4", 64, True),
    ("m256n64", (520, 136, 192), "float16", 0, False),
    ("m256n64", (300, 192, 192), "nvfp4", -1, True, "float16"),
    ("m64n64s", (33, 128, 1088), "bfloat16", -1, True, "bfloat16"),
    ("m128n64s", (130, 192, 320), "nvfp4", 0, True),
    ("m32n128s", (33, 896, 320), "float16", 64, True),
    ("", (100, 880, 192), "float16", 0, True),
    ("", (100, 1760, 192), "bfloat16", -1, True),
    ("", (100, 896, 192), "nvfp4", 8, True, "float16"),
]


@pytest.mark.parametrize("mode", ["eager", "late", "poison"])
def test_several_tiles_of_a_cta_or_a_call_are_right_and_clean(mode, tmp_path):
    """Each run in one of the modes but the first, which has all."""
    runs = SEVERAL_TILES if mode == "eager" else SEVERAL_TILES[mode == "late" :: 2]
    wrong, report = simulate("hopper", mode, runs, tmp_path, PROGRAM, NVFP4_SIMULATE_SMS="3")
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]


@pytest.mark.parametrize("backend", ["blackwell", "geforce"])
def test_an_a_of_16_bits_is_refused_where_the_chip_wants_fp4(backend, tmp_path):
    wrong, _ = simulate(backend, "eager", [("", (3, 64, 64), "bfloat16", 0, True, "bfloat16")], tmp_path, PROGRAM)
    assert (
        len(wrong) == 1
        and f"a has 16 bits an element; expected e2m1 codes with scale factors (a_type 0) on backend {backend}"
        in wrong[0][-1]
    )


# Tiles and numbers of weights (-1: a plain product) without an extended kernel.
REFUSALS = {
    "hopper": [("m128n96", 64), ("m128n96", -1), ("m64n128", 0)],
    "blackwell": [("m256n128k2", 0)],
    "geforce": [("m128n48", 0), ("m64n64", 64)],
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_tiles_without_such_a_kernel_are_refused(backend, tmp_path):
    runs = [(tile, (3, 64, 64), "nvfp4", weights, True) for tile, weights in REFUSALS[backend]]
    wrong, _ = simulate(backend, "eager", runs, tmp_path, PROGRAM)
    assert len(wrong) == len(runs)
    for found, (tile, _) in zip(wrong, REFUSALS[backend], strict=True):
        assert {tile, backend, "extended"} <= set(re.findall(r"\w+", found[-1])), found
