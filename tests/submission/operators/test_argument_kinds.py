"""Arguments in other forms than the library's: taken as the same numbers, or refused by their own names."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from submission import gated_gemm, grouped_gated_gemm, grouped_plain_gemm, plain_gemm, quantize_nvfp4

M, N, K, EXPERTS = 6, 64, 64, 2


@pytest.fixture(scope="module")
def operands():
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 256, (M + 2 * EXPERTS * N, K // 2), generator=generator, dtype=torch.uint8)
    factors = torch.rand(len(codes), K // 16, generator=generator).to(torch.float8_e4m3fn)
    sizes = [M, EXPERTS * N, EXPERTS * N]
    return *codes.split(sizes), *factors.split(sizes)


def by_experts(tensor):
    return tensor.view(EXPERTS, N, tensor.shape[1])


def products(operands, token_scale, scale, counts=None, **more):
    """Both products, of all tokens or of experts' tokens."""
    a, b1, b2, sfa, sfb1, sfb2 = operands
    more |= {"token_scale": token_scale, "scale_layout": "linear", "out_dtype": "bfloat16"}
    gate, up = {"scale_gate": scale, "scale_up": scale}, {"scale": scale}
    if counts is None:
        b1, b2, sfb1, sfb2 = (one[:N] for one in (b1, b2, sfb1, sfb2))
        return gated_gemm(a, b1, b2, sfa, sfb1, sfb2, **gate, **more), plain_gemm(a, b1, sfa, sfb1, **up, **more)
    b1, b2, sfb1, sfb2 = map(by_experts, (b1, b2, sfb1, sfb2))
    more["counts"] = counts
    gated = grouped_gated_gemm(a, b1, b2, sfa, sfb1, sfb2, **gate, **more)
    return gated, grouped_plain_gemm(a, b1, sfa, sfb1, **up, **more)


COUNTS = torch.tensor([2, 4], dtype=torch.int32)


@pytest.mark.parametrize("counts", [None, COUNTS])
def test_scales_of_other_dtypes_and_shapes_are_the_same_numbers(operands, counts):
    tokens = torch.tensor([1.0, 0.5, 2.0, 0.25, 4.0, 1.0])
    want = products(operands, tokens, torch.tensor([0.125]), counts)
    for token_scale in (tokens.bfloat16(), tokens.double(), tokens.view(M, 1), tokens.half().view(M, 1)):
        for scale in (0.125, np.float32(0.125), np.float64(0.125), torch.tensor(0.125, dtype=torch.bfloat16)):
            found = products(operands, token_scale, scale, counts)
            assert all(torch.equal(*pair) for pair in zip(found, want, strict=True))


def test_int64_counts_and_offsets_are_the_same_numbers(operands):
    want = products(operands, None, 1.0, COUNTS)
    found = products(operands, None, 1.0, COUNTS.long())
    assert all(torch.equal(*pair) for pair in zip(found, want, strict=True))
    a, b1, _, sfa, sfb1, _ = operands
    of_ends = grouped_plain_gemm(
        a,
        by_experts(b1),
        sfa,
        by_experts(sfb1),
        offsets=COUNTS.long().cumsum(0),
        scale_layout="linear",
        out_dtype="bfloat16",
    )
    assert torch.equal(of_ends, want[1])
    beyond = grouped_plain_gemm(
        a,
        by_experts(b1),
        sfa,
        by_experts(sfb1),
        counts=torch.tensor([2, 2**32 + 1]),
        scale_layout="linear",
        out_dtype="bfloat16",
    )
    assert torch.equal(beyond, want[1]), "tokens past the last do not exist"


def test_a_numpy_scale_quantizes():
    x = torch.randn(4, 64)
    for scale in (np.float32(2), np.int64(2), torch.tensor([2.0], dtype=torch.bfloat16)):
        found, want = quantize_nvfp4(x, scale), quantize_nvfp4(x, 2.0)
        assert torch.equal(found[0], want[0])
        assert torch.equal(found[1].view(torch.uint8), want[1].view(torch.uint8))


def test_what_is_no_number_and_no_tensor_is_named(operands):
    for scale in ("2", [2.0], {}):
        with pytest.raises(TypeError, match=r"^global_scale is .*; expected a number or a torch\.Tensor"):
            quantize_nvfp4(torch.zeros(4, 64), scale)
        with pytest.raises(TypeError, match=r"^scale_gate is .*; expected a number or a torch\.Tensor"):
            products(operands, None, scale)
    for counts in ([2, 4], (2, 4), 6):
        with pytest.raises(TypeError, match=r"^counts is .*; expected an int32 torch\.Tensor"):
            products(operands, None, 1.0, counts)
    with pytest.raises(RuntimeError, match=r"counts has dtype torch\.float32; expected torch\.int32"):
        products(operands, None, 1.0, COUNTS.float())
    with pytest.raises(RuntimeError, match=r"scale_gate has dtype torch\.int64; expected torch\.float32"):
        products(operands, None, torch.ones(1, dtype=torch.int64))


def test_what_no_choice_can_be_is_refused_by_name(operands):
    for name in ("out_dtype", "activation"):
        with pytest.raises(ValueError, match=rf"^{name} is \[\]; expected one of"):
            plain_gemm(*operands[:2], *operands[3:5], scale_layout="linear", **{name: []})
    for name in ("weights", "activation"):
        with pytest.raises(ValueError, match=rf"^{name} is {{}}; expected one of"):
            gated_gemm(*operands, scale_layout="linear", **{name: {}})


def unaligned(tensor):
    """A copy that begins one byte after a multiple of 16."""
    memory = torch.empty(tensor.nbytes + 32, dtype=torch.uint8)
    first = -memory.data_ptr() % 16 + 1
    copied = torch.frombuffer(memory.numpy(), dtype=tensor.dtype, count=tensor.numel(), offset=first)
    return copied.view(tensor.shape).copy_(tensor)


def test_an_unaligned_argument_is_named_as_the_caller_names_it(operands):
    a, b, _, sfa, sfb, _ = operands
    given = {"a": a, "b": b[:N], "sfa": sfa, "sfb": sfb[:N], "scale": torch.ones(1), "token_scale": torch.ones(M)}
    given["bias"] = torch.ones(N)
    of_experts = given | {"b": by_experts(b), "sfb": by_experts(sfb), "scale": torch.ones(2), "offsets": COUNTS}
    of_experts["bias"] = torch.ones(2, N)
    for product, arguments in ((plain_gemm, given), (grouped_plain_gemm, of_experts)):
        for name in set(arguments) - {"sfa", "sfb"}:  # these are copied
            wrong = arguments | {name: unaligned(arguments[name])}
            with pytest.raises(RuntimeError, match=rf"nvfp4_gemm: {name} is at 0x\w+; expected an address aligned to"):
                product(**wrong, scale_layout="linear")


def test_a_tensor_without_memory_beside_others_is_named(operands):
    a, b, _, sfa, sfb, _ = operands
    with pytest.raises(RuntimeError, match=r"bias is on another device; expected cpu, as a$"):
        plain_gemm(a, b, sfa, sfb, bias=torch.ones(len(b), device="meta"), scale_layout="linear")
