"""The wrappers of PTX instructions name every register once and in order: one named twice computes nearly right."""

from __future__ import annotations

import re

import pytest

FILES = ("ptx", "tcgen05", "wgmma", "sm120")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
OPERAND = re.compile(r'"([=+]?[a-z])"\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)')


def statements(text):
    """Each asm statement: its text, and its operands in order."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    for found in re.finditer(r"\basm(?: volatile)?\((.*?)\);\n", text, re.DOTALL):
        body = found[1]
        at = 0
        while piece := re.compile(r'\s*(?:"(?:[^"\\]|\\.)*"|[A-Z_]+)').match(body, at):
            at = piece.end()
        yield "".join(STRING.findall(body[:at])), OPERAND.findall(body[at:])


@pytest.fixture(params=FILES)
def wrappers(request, root):
    text = (root / f"submission/gpu/instructions/{request.param}.cuh").read_text()
    found = list(statements(text))
    assert len(found) == len(re.findall(r"\basm\b", re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)))
    return found


def test_every_register_of_an_array_is_an_operand_once_in_its_place(wrappers):
    for text, operands in wrappers:
        places = {}
        for _, name in operands:
            if element := re.fullmatch(r"(\w+)\[(\d+)\]", name):
                places.setdefault(element[1], []).append(int(element[2]))
        for name, indices in places.items():
            assert indices == list(range(len(indices))), (text[:80], name)


def test_lists_of_registers_in_the_text_go_up_by_one(wrappers):
    for text, operands in wrappers:
        assert all(int(number) < len(operands) for number in re.findall(r"%(\d+)", text)), text[:120]
        for group in re.findall(r"\{((?:\s*%\d+\s*,){3,}\s*%\d+\s*)\}", text):
            numbers = [int(number) for number in re.findall(r"%(\d+)", group)]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), text[:120]


def test_a_wgmma_takes_as_many_registers_as_its_width_needs(root):
    text = (root / "submission/gpu/instructions/wgmma.cuh").read_text()
    widths = []
    for body, operands in statements(text):
        if shape := re.search(r"wgmma\.mma_async\S*\.m64n(\d+)k16\.f32", body):
            widths.append(int(shape[1]))
            assert sum(constraint == "+f" for constraint, _ in operands) == int(shape[1]) // 2
            assert f"mma_async(float (&d)[{int(shape[1]) // 2}]" in text and f"wgmma_m64k16<{shape[1]}>" in text
    assert len(widths) == len(set(widths)) > 5
