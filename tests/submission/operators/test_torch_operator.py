"""The operator of PyTorch on the CPU: results, fake tensors, compiling, exporting, and torch's own checks of it."""

from __future__ import annotations

import importlib.util
import inspect
import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import submission
from reference.reference import check_against_oracle, generate_input
from submission import dual_gemm, operators, torch_operator

M, N, K, L = 40, 72, 192, 2
OP = torch.ops.nvfp4_gemm.dual_gemm


@pytest.fixture(scope="module")
def data():
    """The leaderboard's ten tensors of a small problem with two batches; the last one holds the right output."""
    data = generate_input(M, N, K, L, 3, full=True, device="cpu")
    submission.custom_kernel(data)
    assert check_against_oracle(data, data[-1]) == (True, "")
    return data


def operands(data, blocked=False, dimensions=3, as_bytes=True):
    """The operator's six tensors; with two dimensions, the first batch only."""
    tensors = [*data[:3], *(data[6:9] if blocked else data[3:6])]
    if dimensions == 2:
        tensors = [tensor[..., 0] for tensor in tensors]
    return tuple(tensor.view(torch.uint8) for tensor in tensors) if as_bytes else tuple(tensors)


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("blocked", [False, True])
def test_both_overloads_compute_what_the_shim_does(data, blocked, dimensions, as_bytes):
    tensors = operands(data, blocked, dimensions, as_bytes)
    want = data[-1] if dimensions == 3 else data[-1][..., 0]
    before = [tensor.view(torch.uint8).clone() for tensor in tensors]
    found = dual_gemm(*tensors)
    assert torch.equal(found, want) and found.dtype == torch.float16
    out = torch.full_like(found, float("nan"))
    assert dual_gemm(*tensors, out=out) is out and torch.equal(out, want)
    assert all(torch.equal(b, t.view(torch.uint8)) for b, t in zip(before, tensors, strict=True))


def test_the_output_has_the_librarys_memory_order(data):
    assert dual_gemm(*operands(data)).stride() == (N, 1, M * N)
    assert dual_gemm(*operands(data, dimensions=2)).stride() == (N, 1)


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("overload", ["default", "out"])
def test_torchs_own_checks_pass(data, overload, blocked):
    # As bytes: torch's schema check copies the tensors, and torch cannot copy e2m1 on a CPU.
    tensors = operands(data, blocked, dimensions=2)
    out = {"c": torch.zeros(M, N, dtype=torch.half)} if overload == "out" else {}
    assert set(torch.library.opcheck(getattr(OP, overload), tensors, out).values()) == {"SUCCESS"}


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_fake_and_meta_tensors_give_the_outputs_metadata(data, dimensions, as_bytes):
    real = operands(data, True, dimensions, as_bytes)
    want = dual_gemm(*real)
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(tensor) for tensor in real]
        found = dual_gemm(*fake)
        assert dual_gemm(*fake, out=torch.empty_like(found)).shape == want.shape
    meta = dual_gemm(*(tensor.to("meta") for tensor in real))
    for tensor in (found, meta):
        assert (tensor.shape, tensor.stride(), tensor.dtype) == (want.shape, want.stride(), want.dtype)
    assert found.device.type == "cpu" and meta.device.type == "meta"


class Layer(torch.nn.Module):
    """A module that calls the operator."""

    def forward(self, *tensors, out=None):
        return dual_gemm(*tensors, out=out) * 2


@pytest.mark.parametrize("as_bytes", [False, True])
def test_it_compiles_as_one_graph(data, as_bytes):
    tensors = operands(data, as_bytes=as_bytes)
    compiled = torch.compile(Layer(), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*tensors), data[-1] * 2)
    out = torch.zeros_like(data[-1])
    assert torch.equal(compiled(*tensors, out=out), data[-1] * 2) and torch.equal(out, data[-1])
    wider = generate_input(M + 24, N, K, L, 4, full=True, device="cpu")
    assert torch.equal(compiled(*operands(wider, as_bytes=as_bytes)), submission.custom_kernel(wider) * 2)


def test_it_is_exported_with_any_number_of_rows(data):
    tensors = operands(data)
    rows = torch.export.Dim("rows", min=2, max=4096)
    shapes = ({0: rows}, None, None, {0: rows}, None, None)
    program = torch.export.export(Layer(), tensors, dynamic_shapes={"tensors": shapes})
    assert any(node.target is OP.default for node in program.graph.nodes)
    assert torch.equal(program.module()(*tensors), data[-1] * 2)
    wider = generate_input(M + 24, N, K, L, 4, full=True, device="cpu")
    assert torch.equal(program.module()(*operands(wider)), submission.custom_kernel(wider) * 2)


def change(place, to):
    return lambda tensors: [*tensors[:place], to(tensors[place]), *tensors[place + 1 :]]


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (change(0, lambda a: a[..., 0]), "b1 has shape (72, 96, 2); expected 2 dimensions"),
        (change(0, lambda a: a[:, :36]), "a has K = 72; expected a multiple of 16"),
        (
            change(1, lambda b: b.permute(2, 0, 1)[:, :8].contiguous().permute(1, 2, 0)),
            "b2 has shape (72, 96, 2); expected (8, 96, 2)",
        ),
        (change(2, lambda b: b[:, :32]), "b2 has shape (72, 32, 2); expected (72, 96, 2)"),
        (change(2, lambda b: b[..., :1]), "b2 has shape (72, 96, 1); expected (72, 96, 2)"),
        (change(3, lambda s: s[:8]), "sfa has shape (8, 12, 2); expected (40, 12, 2)"),
        (change(4, lambda s: s[:, :4]), "sfb1 has shape (72, 4, 2); expected (72, 12, 2)"),
        (change(3, lambda s: s[..., 0]), "sfa has shape (40, 12); expected (40, 12, 2)"),
        (change(1, lambda b: b.view(torch.int8)), "b1 has dtype torch.int8; expected torch.float4_e2m1fn_x2 or "),
        (change(4, lambda s: s.view(torch.float8_e8m0fnu)), "sfb1 has dtype torch.float8_e8m0fnu; expected "),
        (change(2, lambda b: b.contiguous()), "b2 has strides (192, 2, 1); expected (96, 1, 6912)"),
        (change(5, lambda s: s.to("meta")), "on meta"),
    ],
)
def test_wrong_tensors_are_refused_by_the_operator_and_its_fake(data, alter, words):
    real = alter(operands(data))
    with pytest.raises(RuntimeError) as error:
        dual_gemm(*real)
    assert words in str(error.value) or "on meta" in words
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, pytest.raises(RuntimeError) as error:
        dual_gemm(*(tensor if tensor.is_meta else mode.from_tensor(tensor) for tensor in real))
    assert words in str(error.value) or "on meta" in words
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, pytest.raises(RuntimeError) as error:
        out = mode.from_tensor(torch.empty_like(data[-1]))
        dual_gemm(*(tensor if tensor.is_meta else mode.from_tensor(tensor) for tensor in real), out=out)
    assert words in str(error.value) or "on meta" in words


@pytest.mark.parametrize("place", range(6))
def test_strides_are_those_of_the_callers_tensor(data, place):
    """A tensor of two dimensions is not reported with the third one that the library's call adds."""
    tensors = list(operands(data, dimensions=2))
    wide = torch.zeros((tensors[place].shape[0], 2 * tensors[place].shape[1]), dtype=torch.uint8)
    width = tensors[place].shape[1]
    tensors[place] = wide[:, ::2]
    name = ("a", "b1", "b2", "sfa", "sfb1", "sfb2")[place]
    with pytest.raises(RuntimeError, match=re.escape(f"{name} has strides ({2 * width}, 2); expected ({width}, 1)")):
        dual_gemm(*tensors)


def test_scales_may_be_python_numbers_and_formats_torch_dtypes(data):
    a, b1, b2, sfa, sfb1, sfb2 = operands(data, dimensions=2)
    half, third = torch.tensor(0.5), torch.tensor(3.0)
    want = submission.gated_gemm(a, b1, b2, sfa, sfb1, sfb2, scale_gate=half, scale_up=third, out_dtype="bfloat16")
    found = submission.gated_gemm(a, b1, b2, sfa, sfb1, sfb2, scale_gate=0.5, scale_up=3, out_dtype=torch.bfloat16)
    assert found.dtype == torch.bfloat16 and torch.equal(found.nan_to_num(-1), want.nan_to_num(-1))
    plain = submission.plain_gemm(a, b1, sfa, sfb1, scale=half, out_dtype="float16")
    found = submission.plain_gemm(a, b1, sfa, sfb1, scale=0.5, out_dtype=torch.float16)
    assert torch.equal(found.nan_to_num(-1), plain.nan_to_num(-1))
    with pytest.raises(ValueError, match=r"^out_dtype is torch\.float32; expected one of float16, bfloat16, nvfp4"):
        submission.plain_gemm(a, b1, sfa, sfb1, out_dtype=torch.float32)


FUNCTIONS = [one for one in map(vars(submission).get, submission.__all__) if inspect.isfunction(one)]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_help_describes_every_argument(function):
    for name in inspect.signature(function).parameters:
        assert re.search(rf"(?<!\w){name}(?!\w)", function.__doc__), name
    assert function.__name__ == "custom_kernel" or "file" not in function.__doc__  # a bundle shows those alone


def test_the_package_shows_its_public_names_and_its_version(root):
    shown = {name for name in dir(submission) if not name.startswith("_")}
    assert shown == set(submission.__all__) and all(callable(getattr(submission, name)) for name in shown)
    version = re.search(r'^version = "(.*?)"', (root / "pyproject.toml").read_text(), re.MULTILINE)
    assert submission.__version__ == version[1]


def test_a_wrong_output_is_refused_untouched(data):
    tensors = operands(data)
    for out in (torch.ones(M, N, L), torch.ones(M, N, dtype=torch.half), torch.ones(M, 8, L, dtype=torch.half)):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            dual_gemm(*tensors, out=out)
        assert torch.equal(out, torch.ones_like(out))
        with FakeTensorMode() as mode, pytest.raises(RuntimeError):
            dual_gemm(*map(mode.from_tensor, tensors), out=mode.from_tensor(out))


@pytest.mark.parametrize("blocked", [False, True])
def test_joint_weights_are_taken_by_slices(blocked):
    rows = 128  # rows of gate, and as many of up
    data = generate_input(8, 2 * rows, 128, 1, 5, full=True, device="cpu")
    a, w13, _, sfa, scales, _ = operands(data, blocked, 2)
    gate, up = (slice(None, rows), slice(rows, None))
    parts = [scales[:, :, :1], scales[:, :, 1:]] if blocked else [scales[gate], scales[up]]
    layout = "swizzled128x4" if blocked else "linear"
    got = dual_gemm(a, w13[gate], w13[up], sfa, *parts, scale_layout=layout)
    by_rows = (data[3], data[4][gate], data[4][up])
    scales = (scale[..., 0].contiguous() for scale in by_rows)
    wanted = dual_gemm(a, w13[gate].clone(), w13[up].clone(), *scales, scale_layout="linear")
    assert torch.equal(got.nan_to_num(-1), wanted.nan_to_num(-1))


def test_a_call_takes_the_current_queue_unless_one_is_given(data, monkeypatch):
    asked, calls = [], []
    shim = submission.submission
    monkeypatch.setattr(shim, "_current_queue", lambda device: asked.append(device) or 77)

    def call(arguments):
        calls.append(shim._ARGS.unpack(arguments)[-1])
        return 0

    monkeypatch.setattr(shim, "_call", call)
    shim.custom_kernel(data)
    shim.custom_kernel(data, 5)
    shim.custom_kernel(data, queue=0)
    assert (calls, asked) == ([77, 5, 0], [-1])
    monkeypatch.setattr(operators, "_raw_queue", lambda device: 1000 + device)
    assert [operators.current_queue(device) for device in (-1, 0, 3)] == [0, 1000, 1003]


def test_the_shim_alone_runs_on_the_default_queue_and_checks_cs_memory(library_path, monkeypatch):
    """The module is loaded as in a bundle, to which no package adds anything."""
    monkeypatch.setenv("NVFP4_LIBRARY", str(library_path))
    spec = importlib.util.spec_from_file_location("submission.alone", submission.submission.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module._current_queue is None and submission.submission._current_queue is operators.current_queue
    packed = []
    monkeypatch.setattr(module, "_call", lambda arguments: packed.append(module._ARGS.unpack(arguments)[-1]) or 0)
    *inputs, c = generate_input(1, 64, 64, 1, 1, device="cpu")
    module.custom_kernel((*inputs, c))
    module.custom_kernel((*inputs, c), queue=16)
    assert packed == [0, 16]
    with pytest.raises(ValueError, match=r"^c has torch's negative bit; expected values as they lie in memory"):
        module.custom_kernel((*inputs, torch._neg_view(c)))
    room = torch.zeros(128, dtype=torch.float16)
    c = room[64:].view(1, 64, 1)
    module.custom_kernel((*inputs, c))
    room.untyped_storage().resize_(c.nbytes)  # as many bytes as c has, but all before it
    with pytest.raises(ValueError, match=r"^c has 128 bytes, of which its storage holds 0; expected a storage that"):
        module.custom_kernel((*inputs, c))
    assert len(packed) == 3, "the library was not called"


def test_a_second_copy_of_the_package_shares_the_operator():
    assert not operators.register("dual_gemm", torch_operator._new_c) and OP.overloads() == ["default", "out"]
