"""The grouped GEMM of the package: one node of a compiled graph, and more groups than the library takes at once."""

from __future__ import annotations

import pytest
import torch

from reference import group_reference
from submission import custom_kernel_grouped


def data_of(sizes, seed=3):
    m, n, k = (tuple(column) for column in zip(*sizes, strict=True))
    return group_reference.generate_input(m, n, k, len(sizes), seed, device="cpu")


def outputs_of(data):
    wanted = [c.clone() for c in custom_kernel_grouped(data)]
    for _, _, c in data[0]:
        c.fill_(float("nan"))
    return wanted


def same(found, wanted):
    return all(torch.equal(x.nan_to_num(-1), y.nan_to_num(-1)) for x, y in zip(found, wanted, strict=True))


def test_a_compiled_graph_has_it_as_one_node():
    data = data_of([(3, 8, 64), (40, 24, 192), (1, 72, 128)])
    wanted = outputs_of(data)
    nodes = []

    def backend(graph, _):
        nodes.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph

    compiled = torch.compile(lambda data: [c * 2 for c in custom_kernel_grouped(data)], fullgraph=True, backend=backend)
    assert same(compiled(data), [c * 2 for c in wanted])
    assert nodes.count(torch.ops.nvfp4_gemm.grouped) + nodes.count(torch.ops.nvfp4_gemm.grouped.default) == 1
    assert same([c for _, _, c in data[0]], wanted)
    functional = torch.compile(lambda data: custom_kernel_grouped(data), fullgraph=True, backend="aot_eager")
    for _, _, c in data[0]:
        c.fill_(float("nan"))
    assert same(functional(data), wanted)


def test_more_groups_than_the_library_takes_at_once():
    sizes = [(1 + index % 3, 8, 64) for index in range(256)]
    data = data_of(sizes)
    wanted = outputs_of(data)
    # 384 groups by new outputs for the first half again
    again = [(a, b, torch.full_like(c, float("nan"))) for a, b, c in data[0][:128]]
    many = tuple(list(one) + list(more) for one, more in zip(data, (again, *(d[:128] for d in data[1:])), strict=True))
    found = custom_kernel_grouped(many)
    assert len(found) == 384 and same(found, [*wanted, *wanted[:128]])
    bad = list(many[3])
    bad[300] = (7, 8, 64, 1)
    for _, _, c in many[0]:
        c.fill_(5.0)
    with pytest.raises(ValueError, match="of group 300 "):
        custom_kernel_grouped((*many[:3], bad))
    assert all((c == 5.0).all() for _, _, c in many[0])
