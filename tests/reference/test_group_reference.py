"""The grouped GEMM's contract: input data, reference values by hand, and checks that name the wrong group."""

from __future__ import annotations

import pytest
import torch

from reference import nvfp4
from reference.group_reference import (
    check_against_oracle,
    check_implementation,
    generate_input,
    oracle,
    oracle_with_error,
    ref_kernel,
)

SIZES = ((40, 0, 129), (72, 8, 130), (64, 128, 192))


def data_of(seed=3, full=False):
    return generate_input(*SIZES, 3, seed, full, device="cpu")


def test_the_data_is_the_leaderboards():
    abc, plain, blocked, sizes = data_of()
    assert sizes == [(40, 72, 64, 1), (0, 8, 128, 1), (129, 130, 192, 1)]
    for (a, b, c), (sfa, sfb), (bsfa, bsfb), (m, n, k, _) in zip(abc, plain, blocked, sizes, strict=True):
        assert (a.shape, b.shape, c.shape) == ((m, k // 2, 1), (n, k // 2, 1), (m, n, 1))
        assert (a.dtype, c.dtype, sfa.dtype) == (torch.float4_e2m1fn_x2, torch.float16, torch.float8_e4m3fn)
        assert a.is_contiguous() and c.is_contiguous() and sfa.device.type == sfb.device.type == "cpu"
        for codes in (a, b):
            assert (codes.view(torch.uint8) & ~torch.tensor(0xBB, dtype=torch.uint8) == 0).all()
        for rows, scale, permuted in ((m, sfa, bsfa), (n, sfb, bsfb)):
            assert scale.shape == (rows, k // 16, 1) and set(scale.float().flatten().tolist()) <= {1.0, 2.0}
            assert permuted.shape == (32, 4, -(-rows // 128), 4, k // 64, 1)
            assert torch.equal(nvfp4.from_blocked(permuted, rows, k // 16).view(torch.uint8), scale.view(torch.uint8))
            padding = permuted.view(torch.uint8) == nvfp4.SCALE_NAN
            assert padding.sum() == permuted.numel() - scale.numel(), "all of the padding and nothing else is NaN"
    assert {1.0, 2.0} == set(plain[2][0].float().flatten().tolist())


def test_full_data_has_every_code_and_scale_and_a_nan_of_either_sign():
    abc, plain, _, _ = generate_input((256, 128), (256, 8), (1024, 64), 2, 1, True, device="cpu")
    assert set(abc[0][0].view(torch.uint8).flatten().tolist()) == set(range(256))
    assert set(plain[0][1].view(torch.uint8).flatten().tolist()) == set(range(256))
    assert not torch.equal(plain[0][0].isnan().any(1), plain[0][1].isnan().any(1)), "drawn for each operand"


def test_a_seed_gives_the_same_data_and_another_seed_other_data():
    def raw(seed):
        return [x.view(torch.uint8) for a, b, _ in data_of(seed)[0] for x in (a, b)]

    assert all(torch.equal(x, y) for x, y in zip(raw(3), raw(3), strict=True))
    assert not torch.equal(raw(3)[0], raw(4)[0])


def test_the_reference_by_hand():
    a = torch.tensor([[0x21] * 32, [0x0A] * 32], dtype=torch.uint8).view(torch.float4_e2m1fn_x2).unsqueeze(-1)
    b = torch.tensor([[0x42] * 32], dtype=torch.uint8).view(torch.float4_e2m1fn_x2).unsqueeze(-1)
    sfa = torch.tensor([[2.0] * 4, [1.0] * 4]).to(torch.float8_e4m3fn).unsqueeze(-1)
    sfb = torch.tensor([[1.0, 1.0, 1.0, 2.0]]).to(torch.float8_e4m3fn).unsqueeze(-1)
    data = ([(a, b, torch.empty(2, 1, 1).half())], [(sfa, sfb)], [(None, None)], [(2, 1, 64, 1)])
    # a's pairs along K: 0.5 and 1 times 2; -1 and 0.  b's: 1 and 2, and its last 16 elements of K count double.
    by_hand = torch.tensor([[[40 * 2 * (0.5 * 1 + 1 * 2)]], [[40 * -1.0 * 1]]])
    for got in (ref_kernel(data)[0].float(), oracle(data)[0].float()):
        assert torch.equal(got, by_hand)
    assert torch.allclose(oracle_with_error(data, 1.0)[0].fp32_error.float(), by_hand.abs() * 2.0**-23)


@pytest.mark.parametrize("check", [check_implementation, check_against_oracle])
@pytest.mark.parametrize("full", [False, True])
def test_checks_pass_the_reference_and_name_the_group_that_is_wrong(check, full):
    data = data_of(full=full)
    output = ref_kernel(data)
    assert [tuple(part.shape) for part in output] == [(40, 72, 1), (0, 8, 1), (129, 130, 1)]
    assert check(data, output) == (True, "")
    row, column, _ = output[2].isfinite().nonzero()[0].tolist()
    output[2][row, column] += 1000 if output[2][row, column] < 0 else -1000
    ok, message = check(data, output)
    assert not ok and message.startswith(f"group 2 of 3: 1 of 16770 elements differ: at ({row}, {column}, 0) got")
    ok, message = check(data, output[:2])
    assert not ok and "expected 3 tensors" in message


def test_lists_of_another_length_are_refused():
    with pytest.raises(ValueError, match="n has 1 values; expected 2, as g says"):
        generate_input((1, 2), (1,), (64, 64), 2, device="cpu")
    data = data_of()
    with pytest.raises(ValueError, match="3 groups of operands and 2 of scale factors"):
        ref_kernel((data[0], data[1][:2], data[2], data[3]))
