"""The operator on a CUDA device: the current queue, CUDA graphs, the compiler.  Skips where there is no device.

On a machine with one:  make library && python -m pytest -q tests/submission/gpu/test_torch_operator_cuda.py
"""

from __future__ import annotations

import pytest
import torch

import submission
from reference.reference import check_against_oracle, generate_input
from submission import dual_gemm

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or not any(b.available and b.name != "cpu" for b in submission.backends()),
    reason="no CUDA device that a backend supports",
)
SHAPE = (256, 512, 1024)
HOLD_CYCLES = 100_000_000  # some 50 ms: longer than all launches of a test take


@pytest.fixture(scope="module")
def problems():
    """Two problems of one shape on the device, and their right outputs."""
    found = []
    for seed in (3, 4):
        data = generate_input(*SHAPE, 1, seed, full=True, device="cuda")
        want = submission.custom_kernel(data).clone()
        torch.cuda.synchronize()
        assert check_against_oracle(data, want) == (True, "")
        found.append((data, want[..., 0]))
    assert not torch.equal(found[0][1], found[1][1])
    return found


def operands(data, blocked=True, as_bytes=True):
    """The operator's six tensors, of two dimensions (blocked scale factors: of five)."""
    tensors = [tensor[..., 0] for tensor in (*data[:3], *(data[6:9] if blocked else data[3:6]))]
    return tuple(tensor.view(torch.uint8) for tensor in tensors) if as_bytes else tuple(tensors)


def buffers(tensors):
    """Tensors of the same memory order whose content can be exchanged."""
    return tuple(tensor.clone(memory_format=torch.preserve_format) for tensor in tensors)


def fill(into, tensors):
    for target, source in zip(into, tensors, strict=True):
        target.copy_(source)


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("blocked", [False, True])
def test_both_overloads_give_right_results(problems, blocked, as_bytes):
    for data, want in problems:
        tensors = operands(data, blocked, as_bytes)
        out = torch.full_like(want, float("nan"))
        layout = None if blocked else "linear"
        assert torch.equal(dual_gemm(*tensors, scale_layout=layout), want)
        assert torch.equal(dual_gemm(*tensors, out=out, scale_layout=layout), want)


@pytest.mark.parametrize("overload", ["default", "out", "shim"])
def test_it_runs_on_the_current_queue(problems, overload):
    """Behind work that holds a side queue up, then changes the inputs: elsewhere it would see the old ones."""
    (first, _), (second, want) = problems
    held = buffers(operands(first))
    out = torch.full_like(want, float("nan"))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(HOLD_CYCLES)
        fill(held, operands(second))
        if overload == "default":
            found = dual_gemm(*held)
        elif overload == "out":
            found = dual_gemm(*held, out=out)
        else:
            full = [t.unsqueeze(-1).view(s.dtype) for t, s in zip(held, (*second[:3], *second[6:9]), strict=True)]
            submission.custom_kernel((*full[:3], None, None, None, *full[3:], out.unsqueeze(-1)))
            found = out
    assert not side.query()  # the host was not held up: nothing waited
    side.synchronize()
    assert torch.equal(found, want)


@pytest.mark.parametrize("overload", ["default", "out", "shim"])
def test_it_is_captured_and_replayed_with_other_inputs(problems, overload):
    (first, want_first), (second, want_second) = problems
    held = buffers(operands(first))
    out = torch.empty_like(want_first)

    def call():
        if overload == "default":
            return dual_gemm(*held)
        if overload == "out":
            return dual_gemm(*held, out=out)
        full = [t.unsqueeze(-1).view(s.dtype) for t, s in zip(held, (*first[:3], *first[6:9]), strict=True)]
        submission.custom_kernel((*full[:3], None, None, None, *full[3:], out.unsqueeze(-1)))
        return out

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()  # warm up, as torch's manual asks
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
    for data, want in ((second, want_second), (first, want_first), (second, want_second)):
        fill(held, operands(data))
        found.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(found, want)


def test_two_calls_in_one_graph_each_have_their_scratch_memory(problems):
    held = [buffers(operands(data)) for data, _ in problems]
    for tensors in held:
        dual_gemm(*tensors)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = [dual_gemm(*tensors) for tensors in held]
    for _ in range(2):
        for output in found:
            output.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(output, want) for output, (_, want) in zip(found, problems, strict=True))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_it_compiles_as_one_graph(problems, mode, as_bytes):
    compiled = torch.compile(lambda *tensors: dual_gemm(*tensors) * 2, fullgraph=True, mode=mode)
    for _ in range(3):  # reduce-overhead captures a CUDA graph on the way
        for data, want in problems:
            assert torch.equal(compiled(*operands(data, as_bytes=as_bytes)), want * 2)


def test_the_overload_with_an_output_compiles(problems):
    compiled = torch.compile(lambda *tensors, out: dual_gemm(*tensors, out=out) * 2, fullgraph=True)
    for data, want in problems:
        out = torch.full_like(want, float("nan"))
        assert torch.equal(compiled(*operands(data), out=out), want * 2) and torch.equal(out, want)


@pytest.mark.parametrize("overload", ["default", "out"])
def test_torchs_own_checks_pass(problems, overload):
    data, want = problems[0]
    out = {"c": torch.zeros_like(want)} if overload == "out" else {}
    operator = getattr(torch.ops.nvfp4_gemm.dual_gemm, overload)
    assert set(torch.library.opcheck(operator, operands(data), out).values()) == {"SUCCESS"}


def test_it_is_exported(problems):
    class Layer(torch.nn.Module):
        def forward(self, *tensors):
            return dual_gemm(*tensors) * 2

    data, want = problems[0]
    program = torch.export.export(Layer(), operands(data))
    assert torch.equal(program.module()(*operands(data)), want * 2)
