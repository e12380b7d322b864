"""Facts that each problem reports for a case: text, work, memory needed for checking, and every tensor."""

from __future__ import annotations

import pytest
import torch

from reference import group_reference, nvfp4, product_reference
from reference.problems import dual_gemm, group_gemm

DUAL = dual_gemm.DualGemm(40, 72, 192, 3)
GROUPS = group_gemm.GroupGemm((5, 0, 130), (64, 72, 8), (128, 64, 192))

E2M1, E4M3, HALF = "float4_e2m1fn_x2", "float8_e4m3fn", "float16"
BY_ROWS, IN_BLOCKS = (1, 2, 0), (3, 4, 1, 5, 2, 0)


def plain(block) -> tuple:
    return tuple(block)


def test_a_case_of_the_dual_gemm_in_numbers():
    assert DUAL.text() == "40 72 192 x 3"
    assert DUAL._replace(l=1).text() == "40 72 192"
    assert DUAL.record() == {"m": 40, "n": 72, "k": 192, "l": 3}
    # 184 rows of 96 bytes of codes and 12 scale factors; three batches
    assert DUAL.work() == (2 * 40 * 72 * 192 * 3, 184 * (96 + 12) * 3, 2 * 40 * 72 * 3)
    assert DUAL.checking_bytes() == 4 * (184 * 192 + 2 * 40 * 72)
    assert dual_gemm.DualGemm(512, 512, 64, 3).checking_bytes() == 8 * 512 * 512 * 3
    assert DUAL.output_name(0) == ""
    assert plain(DUAL.output()) == ((3, 40, 72), HALF, BY_ROWS, "other", False)
    assert DUAL.output().bytes == 2 * 3 * 40 * 72
    roles = ("activations", "weights", "weights")
    assert [plain(block) for block in DUAL.inputs()] == [
        *(((3, rows, 96), E2M1, BY_ROWS, role, False) for rows, role in zip((40, 72, 72), roles, strict=True)),
        *(((3, rows, 12), E4M3, BY_ROWS, "other", False) for rows in (40, 72, 72)),
        *[((3, 1, 3, 32, 4, 4), E4M3, IN_BLOCKS, "other", False)] * 3,
    ]
    assert [block.bytes for block in DUAL.inputs()] == [11520, 20736, 20736, 1440, 2592, 2592, 4608, 4608, 4608]


def test_a_case_of_the_grouped_gemm_in_numbers():
    assert GROUPS.text() == "5,0,130 64,72,8 128,64,192"
    assert group_gemm.GroupGemm((4, 4), (8, 8), (64, 64)).text() == "4 8 64 x 2"
    assert group_gemm.GroupGemm((4,), (8,), (64,)).text() == "4 8 64"
    assert group_gemm.GroupGemm((4, 5), (8, 8), (64, 64)).text() == "4,5 8 64"
    assert GROUPS.record() == {"m": [5, 0, 130], "n": [64, 72, 8], "k": [128, 64, 192], "g": 3}
    # The group with M = 0 reads nothing: 69 rows of 64 + 8 bytes, and 138 rows of 96 + 12.
    assert GROUPS.work() == (5 * 64 * 128 + 130 * 8 * 192, 69 * 72 + 138 * 108, 2 * (5 * 64 + 130 * 8))
    assert GROUPS.checking_bytes() == 4 * (138 * 192 + 130 * 8)
    assert group_gemm.GroupGemm((512, 1), (512, 1), (64, 64)).checking_bytes() == 8 * 512 * 512
    assert GROUPS.output_name(2) == "group 2 of 3 (M N K = 130 8 192)"
    assert [plain(block) for block in GROUPS.output()] == [
        ((1, m, n), HALF, BY_ROWS, "other", False) for m, n in ((5, 64), (0, 72), (130, 8))
    ]
    expected = []
    for m, n, k in ((5, 64, 128), (0, 72, 64), (130, 8, 192)):
        expected += [((1, m, k // 2), E2M1, BY_ROWS, "activations", False)]
        expected += [((1, n, k // 2), E2M1, BY_ROWS, "weights", False)]
        expected += [((1, rows, k // 16), E4M3, BY_ROWS, "other", True) for rows in (m, n)]
        tiles = {5: 1, 64: 1, 0: 0, 72: 1, 130: 2, 8: 1}
        expected += [((1, tiles[rows], k // 64, 32, 4, 4), E4M3, IN_BLOCKS, "other", False) for rows in (m, n)]
    assert [plain(block) for block in GROUPS.inputs()] == expected


@pytest.mark.parametrize(
    ("problem", "wrong", "words"),
    [
        (dual_gemm, {"m": 0}, "m is 0; expected at least 1"),
        (dual_gemm, {"n": -1}, "n is -1; expected at least 1"),
        (dual_gemm, {"l": 0}, "l is 0; expected at least 1"),
        (dual_gemm, {"k": 96}, "k is 96; expected a multiple of 64"),
        (group_gemm, {"g": 0}, "g is 0; expected 1 to 256"),
        (group_gemm, {"g": 257}, "g is 257; expected 1 to 256"),
        (group_gemm, {"g": 3}, "m has 2 values; expected 3, as g says"),
        (group_gemm, {"n": [8]}, "n has 1 values; expected 2, as g says"),
        (group_gemm, {"n": [8, 0]}, "n of group 1 is 0; expected at least 1"),
        (group_gemm, {"m": [-1, 0]}, "m of group 0 is -1; expected at least 0"),
        (group_gemm, {"k": [64, 0]}, "k of group 1 is 0; expected at least 1"),
        (group_gemm, {"k": [64, 65]}, "k of group 1 is 65; expected a multiple of 64"),
        (group_gemm, {"m": [0, 0]}, "m is 0 in every group; expected one with rows"),
    ],
)
def test_sizes_that_no_case_has_are_named(problem, wrong, words):
    right = {"m": 4, "n": 8, "k": 64, "l": 1} if problem is dual_gemm else {"m": [4, 0], "n": [8] * 2, "k": [64] * 2}
    right |= {} if problem is dual_gemm else {"g": 2}
    assert problem.PROBLEM.shape(dict(right)).k in (64, (64, 64))
    with pytest.raises(ValueError) as refused:
        problem.PROBLEM.shape(right | wrong)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("m", "n", "by_tensor_cores"),
    [(128, 128, 1), (0, 128, 0), (127, 128, 0), (256, 192, 0), (256, 384, 1)],
)
def test_groups_use_fp4_tensor_cores_for_multiples_of_a_tile(monkeypatch, m, n, by_tensor_cores):
    """The tensor cores' function is replaced, so that no GPU is needed to see which one is called."""
    asked = []

    def product(codes, scales, batch):
        asked.append(batch)
        return nvfp4.decode(codes[0][..., 0], scales[0][..., 0]) @ nvfp4.decode(codes[1][..., 0], scales[1][..., 0]).t()

    monkeypatch.setattr(product_reference, "has_fp4_tensor_cores", lambda tensor: True)
    monkeypatch.setattr(product_reference, "scaled_product", product)
    data = group_reference.generate_input((m,), (n,), (64,), 1, 5, device=torch.device("cpu"))
    (result,) = group_reference.ref_kernel(data)
    assert result.shape == (m, n, 1)
    assert bool(asked) is bool(by_tensor_cores)
