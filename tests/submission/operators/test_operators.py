"""The operators' registration in C: what an eager call enters, what it accepts, other torches and older libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

from reference import nvfp4
from simulator.python import forked
from submission import (
    dual_gemm,
    gated_gemm,
    grouped_gated_gemm,
    grouped_plain_gemm,
    plain_gemm,
    quantize_nvfp4,
    rms_norm_quantize_nvfp4,
    silu_mul_quantize_nvfp4,
)

M, N, K = 24, 40, 128
MOST_FRAMES = 5


def operands(m=M, seed=0):
    """Codes and linear scale factors of A, B1 and B2, as bytes."""
    generator = torch.Generator().manual_seed(seed)
    rows = (m, N, N)
    codes = [torch.randint(0, 256, (count, K // 2), dtype=torch.uint8, generator=generator) for count in rows]
    scales = [torch.randint(0x28, 0x40, (count, K // 16), dtype=torch.uint8, generator=generator) for count in rows]
    return (*codes, *scales)


def same(found, want):
    return torch.equal(found.nan_to_num(-1), want.nan_to_num(-1))


A, B1, B2, SFA, SFB1, SFB2 = operands()
SCALE = torch.tensor(0.25)
X = torch.ones(M, K)
EXPERTS = (A, B1[None], B2[None], SFA, SFB1[None], SFB2[None])
COUNTS = torch.tensor([M], dtype=torch.int32)
CALLS = {
    "dual": lambda: dual_gemm(A, B1, B2, SFA, SFB1, SFB2),
    "dual, layout": lambda: dual_gemm(A, B1, B2, SFA, SFB1, SFB2, scale_layout="linear"),
    "gated": lambda: gated_gemm(A, B1, B2, SFA, SFB1, SFB2),
    "gated, options": lambda: gated_gemm(
        A, B1, B2, SFA, SFB1, SFB2, scale_gate=SCALE, scale_up=SCALE, token_scale=torch.ones(M), limit=2.0,
        out_dtype=torch.bfloat16, scale_layout="linear",
    ),
    "plain": lambda: plain_gemm(A, B1, SFA, SFB1, scale=SCALE, out_dtype="bfloat16"),
    "experts": lambda: grouped_gated_gemm(*EXPERTS, counts=COUNTS, scale_gate=torch.ones(1), scale_layout="linear"),
    "experts, offsets": lambda: grouped_plain_gemm(A, B1[None], SFA, SFB1[None], offsets=COUNTS, out_dtype="bfloat16"),
    "quantizer": lambda: quantize_nvfp4(X, SCALE, "swizzled128x4"),
    "quantizer, norm": lambda: rms_norm_quantize_nvfp4(X, None, 1e-6, SCALE, residual=X),
    "quantizer, gate": lambda: silu_mul_quantize_nvfp4(X, SCALE),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_an_eager_call_enters_few_python_frames(name):
    call = CALLS[name]
    call()
    entered = []

    def profile(frame, event, _):
        if event == "call":
            entered.append(frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    assert len(entered) - 1 <= MOST_FRAMES, entered  # without the lambda's own


def test_leading_dimensions_of_activations_are_rows():
    want = dual_gemm(A, B1, B2, SFA, SFB1, SFB2)
    a, sfa = A.view(2, 3, 4, K // 2), SFA.view(2, 3, 4, K // 16)
    for factors in (sfa, SFA):
        assert same(dual_gemm(a, B1, B2, factors, SFB1, SFB2), want.view(2, 3, 4, N))
        assert same(gated_gemm(a, B1, B2, factors, SFB1, SFB2), want.view(2, 3, 4, N))
    out = torch.empty(2, 3, 4, N, dtype=torch.float16)
    assert dual_gemm(a, B1, B2, sfa, SFB1, SFB2, out=out) is out and same(out.view(M, N), want)
    plain = plain_gemm(A, B1, SFA, SFB1, token_scale=torch.arange(M).float())
    found = plain_gemm(a, B1, sfa, SFB1, token_scale=torch.arange(M).float().view(2, 3, 4))
    assert same(found, plain.view(2, 3, 4, N))
    compiled = torch.compile(lambda *x: dual_gemm(*x), fullgraph=True, backend="aot_eager")
    assert same(compiled(a, B1, B2, sfa, SFB1, SFB2), want.view(2, 3, 4, N))


def test_leading_dimensions_of_an_nvfp4_output():
    b = torch.cat((B1, B1[:24]))
    sfb = torch.cat((SFB1, SFB1[:24]))
    codes, factors = plain_gemm(A, b, SFA, sfb, out_dtype="nvfp4")
    found, of_found = plain_gemm(A.view(4, 6, -1), b, SFA.view(4, 6, -1), sfb, out_dtype="nvfp4")
    assert torch.equal(found, codes.view(4, 6, -1))
    assert torch.equal(of_found.view(torch.uint8), factors.view(torch.uint8).view(4, 6, -1))


@pytest.mark.parametrize("place", [3, 4, 5])
def test_plain_factors_at_any_row_of_a_larger_tensor_are_taken(place):
    tensors = list(operands())
    want = dual_gemm(*tensors)
    room = torch.zeros((tensors[place].shape[0] + 1, K // 16), dtype=torch.uint8)
    room[1:] = tensors[place]
    tensors[place] = room[1:]
    assert tensors[place].data_ptr() % 16 == 8
    assert same(dual_gemm(*tensors), want) and same(gated_gemm(*tensors), want)


def test_codes_at_another_alignment_are_refused_by_name():
    room = torch.zeros(M * K // 2 + 8, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match=r"^nvfp4_gemm: a is at 0x.*8; expected an address aligned to 16 bytes"):
        dual_gemm(room[8:].view(M, K // 2), B1, B2, SFA, SFB1, SFB2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dual_gemm(None, B1, B2, SFA, SFB1, SFB2), "a is None; expected a tensor"),
        (lambda: plain_gemm(A, None, SFA, SFB1), "b is None; expected a tensor"),
        (lambda: plain_gemm(X, B1, None, SFB1), "a has dtype torch.float32; expected torch.float16 or torch.bfloat16"),
        (lambda: plain_gemm([1], B1, None, SFB1), "Expected a value of type 'Tensor' for argument 'a' but"),
        (lambda: dual_gemm(A, B1, B2, SFA, SFB1, SFB2, out=[1]), r"^out is \[1\]; expected a torch.Tensor"),
        (lambda: dual_gemm(None, B1, B2, SFA, SFB1, SFB2, out=X), "a is None; expected a tensor"),
        (lambda: grouped_plain_gemm(A, None, SFA, SFB1, counts=COUNTS), "^b is a NoneType; expected a torch.Tensor"),
        (lambda: dual_gemm(A, B1, B2, SFA, SFB1, SFB2, out=X), "out has dtype torch.float32; expected torch.float16"),
        (lambda: plain_gemm(A, B1, SFA, SFB1, token_scale=torch.ones(2 * M)[::2]), r"token_scale has strides \(2,\);"),
        (lambda: grouped_plain_gemm(A, B1[None], SFA, SFB1[None], counts=COUNTS, scale=[1.0]), "scale is a list;"),
        (lambda: grouped_plain_gemm(A, B1[None], SFA, SFB1[None], offsets=[M]), "offsets is a list;"),
        (lambda: quantize_nvfp4(None, 1.0), "x is None; expected a torch.Tensor"),
        (lambda: quantize_nvfp4(torch.tensor(1.0)), r"x has shape \(\); expected \(M, K\)"),
        (lambda: rms_norm_quantize_nvfp4(X, None, 1e-6, residual=3), "residual is 3; expected a torch.Tensor"),
        (lambda: quantize_nvfp4(X, 1e39), r"global_scale is 1e\+39; expected a number that float32 holds"),
        (lambda: quantize_nvfp4(X, 1.0, ["linear"]), r"scale_layout is \['linear'\]; expected one of 'linear', "),
        (lambda: dual_gemm(A, A, A, SFA, SFA, SFA, out=A.view(torch.half).view(-1)[: M * M].view(M, M)), "^.*: out at"),
    ],
)  # fmt: skip
def test_what_is_no_such_tensor_is_named_with_what_is_expected(call, words):
    with pytest.raises((RuntimeError, TypeError, ValueError), match=words):
        call()


WITH_SCALES = {
    "scale_gate": lambda s: gated_gemm(A, B1, B2, SFA, SFB1, SFB2, scale_gate=s),
    "scale_up": lambda s: gated_gemm(A, B1, B2, SFA, SFB1, SFB2, scale_up=s, limit=1.0),
    "scale": lambda s: plain_gemm(A, B1, SFA, SFB1, scale=s),
    "token_scale": lambda s: plain_gemm(A, B1, SFA, SFB1, token_scale=s.expand(M).contiguous()),
    "scale_c": lambda s: plain_gemm(A, B1[:32].repeat(2, 1), SFA, SFB1[:32].repeat(2, 1), scale_c=s, out_dtype="nvfp4")[
        1
    ],
    "sfb1": lambda s: dual_gemm(A, B1, B2, SFA, s.expand(SFB1.shape).to(torch.float8_e4m3fn), SFB2),
    "experts' scale_up": lambda s: grouped_gated_gemm(*EXPERTS, counts=COUNTS, scale_up=s),
    "experts' token_scale": lambda s: grouped_plain_gemm(
        A, B1[None], SFA, SFB1[None], counts=COUNTS, token_scale=s.expand(M).contiguous()
    ),
    "global_scale": lambda s: quantize_nvfp4(X, s)[1],
    "weight": lambda s: rms_norm_quantize_nvfp4(X, s.expand(K).contiguous(), 1e-6)[1],
    "residual": lambda s: rms_norm_quantize_nvfp4(X, None, 1e-6, residual=s.expand(X.shape).contiguous())[2],
}


@pytest.mark.parametrize("name", WITH_SCALES)
def test_derivatives_of_a_scale_are_refused(name):
    """The sum with s itself has a gradient without the operator's, which would be wrong without a word."""
    s, words = torch.ones(1, requires_grad=True), name.split()[-1]
    with pytest.raises(RuntimeError, match=f"asks for the gradient of {words}, and these operators have none"):
        (WITH_SCALES[name](s).float().sum() + s).sum().backward()
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match=f"{words} has a tangent of forward-mode"):
        WITH_SCALES[name](forward_ad.make_dual(s.detach(), torch.ones(1)))


def test_a_compiled_graph_refuses_a_backward_pass_too():
    def call(*operands):
        return gated_gemm(*operands[:6], scale_gate=operands[6])

    from functorch.compile import aot_function, nop  # takes seconds, above for each worker of the tests

    s = torch.ones(1, requires_grad=True)
    c = aot_function(call, nop)(A, B1, B2, SFA, SFB1, SFB2, s)  # torch.compile's part that makes the two graphs
    with pytest.raises(RuntimeError, match="asks for the gradient of scale_gate"):
        c.sum().backward()


def test_an_output_is_written_without_a_gradient():
    out = torch.empty(M, N, dtype=torch.float16, requires_grad=True)
    with pytest.raises(RuntimeError, match="out requires a gradient, and out is given"):
        dual_gemm(A, B1, B2, SFA, SFB1, SFB2, out=out)
    with pytest.raises(ValueError, match="out has torch's negative bit"):
        dual_gemm(A, B1, B2, SFA, SFB1, SFB2, out=torch._neg_view(out.detach()))
    with torch.no_grad():
        assert same(dual_gemm(A, B1, B2, SFA, SFB1, SFB2, out=out), dual_gemm(A, B1, B2, SFA, SFB1, SFB2))


def test_fake_tensors_are_refused_as_real_ones_are():
    """What a compiled graph would otherwise be refused for when it runs."""
    odd = B1[:24], SFA, SFB1[:24]
    for call, words in (
        (lambda a, b, sfa, sfb: plain_gemm(a, b, sfa, sfb, out_dtype="nvfp4"), "n is 24; expected a multiple of 64"),
        (lambda a, b, sfa, sfb: gated_gemm(a, b, None, sfa, sfb, None, weights="interleaved8"), "n is 12; .* of 8"),
        (lambda a, b, sfa, sfb: plain_gemm(a, b, sfa, None), "sfb is None; expected a tensor"),
        (lambda a, b, sfa, sfb: grouped_plain_gemm(a, b[:0][None], sfa, sfb[:0][None], counts=COUNTS), "n is 0"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=words):
            call(A, *odd)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode, pytest.raises(RuntimeError, match=words):
            call(*map(mode.from_tensor, (A, *odd)))


def test_alpha_0_halves_the_gate():
    """sigmoid(0 * gate) is 1/2; the library's 0, which stands for 1, is not the caller's."""
    gate, up = plain_gemm(A, B1, SFA, SFB1, scale=2.0**-10), plain_gemm(A, B2, SFA, SFB2, scale=2.0**-10)
    want, scales = (gate.double() / 2 * up.double()).half(), {"scale_gate": 2.0**-10, "scale_up": 2.0**-10}
    assert torch.allclose(gated_gemm(A, B1, B2, SFA, SFB1, SFB2, alpha=0.0, **scales), want, rtol=2e-3, atol=1e-6)
    assert torch.allclose(grouped_gated_gemm(*EXPERTS, counts=COUNTS, alpha=0.0, **scales), want, rtol=2e-3, atol=1e-6)
    found = silu_mul_quantize_nvfp4(torch.cat((2 * X, X), 1), alpha=0.0)
    assert all(same(one.float(), two.float()) for one, two in zip(found, quantize_nvfp4(X), strict=True))


def test_a_shrunk_storage_is_refused_by_name():
    a = A.clone()
    a.untyped_storage().resize_(100)
    with pytest.raises(RuntimeError, match=r"a has 1536 bytes, of which its storage holds 100; expected a storage"):
        gated_gemm(a, B1, B2, SFA, SFB1, SFB2)


def test_a_negative_view_is_read_with_its_sign():
    """torch resolves the view before the operator runs: 0.5 given as the negative of -0.5."""
    half = torch._neg_view(torch.tensor(-0.5))
    assert same(plain_gemm(A, B1, SFA, SFB1, scale=half), plain_gemm(A, B1, SFA, SFB1, scale=torch.tensor(0.5)))


def test_a_torch_without_the_interface_is_refused_with_the_version_needed(library_path):
    """The package says so when it is imported; the process of the first program has loaded no torch at all."""
    register = (
        f"library = ctypes.CDLL({str(library_path)!r}); library.custom_kernel_message.restype = ctypes.c_char_p; "
    )
    shown = "print(library.custom_kernel_torch_register(0), library.custom_kernel_message().decode())"
    done = subprocess.run([sys.executable, "-c", f"import ctypes; {register}{shown}"], capture_output=True, text=True)
    assert done.stdout == "3 the loaded torch has no aoti_torch_is_defined; expected torch 2.11 or later\n"
    refusing = """
import ctypes
real = ctypes.CDLL.__getattr__
ctypes.CDLL.__getattr__ = lambda self, name: (lambda _: 3) if name.endswith("torch_register") else real(self, name)
import submission
"""
    done = forked.run(refusing)
    assert done.returncode == 1 and "ImportError: nvfp4_gemm: " in done.stderr.splitlines()[-1]


def test_the_package_runs_under_torchs_deterministic_mode():
    """It fills new tensors, which torch cannot do with e2m1."""
    code = """
import torch
torch.use_deterministic_algorithms(True)
from tests.submission.operators.test_operators import CALLS
for call in CALLS.values():
    call()
"""
    done = forked.run(code)
    assert done.returncode == 0, done.stderr


def test_blocked_factors_of_leading_dimensions_are_those_of_all_rows():
    blocked = nvfp4.to_blocked(SFA.view(torch.float8_e4m3fn).unsqueeze(-1))[..., 0]
    want = dual_gemm(A, B1, B2, SFA, SFB1, SFB2)
    assert same(dual_gemm(A.view(4, 6, -1), B1, B2, blocked, SFB1, SFB2), want.view(4, 6, N))
