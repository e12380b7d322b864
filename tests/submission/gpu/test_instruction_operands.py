"""The wrappers of PTX instructions name every register once and in order: one named twice computes nearly right."""

from __future__ import annotations

import re
import subprocess

import pytest

FILES = ("ptx", "tcgen05", "wgmma", "sm120")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
OPERAND = re.compile(r'"([=+]?[a-z])"\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)')


def expanded(root, name):
    """A header without comments, its own macros expanded, code for every architecture kept."""
    text = (root / f"submission/gpu/instructions/{name}.cuh").read_text()
    text = re.sub(r"^#(include|if|else|elif|endif).*\n", "", text, flags=re.MULTILINE)
    return subprocess.run(["gcc", "-E", "-P", "-xc++", "-"], input=text, capture_output=True, text=True).stdout


def statements(text):
    """Each asm statement: its text, and its operands in order."""
    for found in re.finditer(r"\basm(?: volatile)?\((.*?)\);", text, re.DOTALL):
        body = found[1]
        at = 0
        while piece := re.compile(r'\s*(?:"(?:[^"\\]|\\.)*"|[A-Z_]+)').match(body, at):
            at = piece.end()
        yield "".join(STRING.findall(body[:at])), OPERAND.findall(body[at:])


@pytest.fixture(params=FILES)
def wrappers(request, root):
    text = expanded(root, request.param)
    found = list(statements(text))
    assert len(found) == len(re.findall(r"\basm\b", text)) > 0
    return found


def test_every_register_of_an_array_is_an_operand_once_in_its_place(wrappers):
    for text, operands in wrappers:
        places = {}
        for _, name in operands:
            if element := re.fullmatch(r"(\w+)\[([\d +]+)\]", name):
                places.setdefault(element[1], []).append(sum(map(int, element[2].split("+"))))
        for name, indices in places.items():
            assert indices == list(range(len(indices))), (text[:80], name)


def test_lists_of_registers_in_the_text_go_up_by_one(wrappers):
    for text, operands in wrappers:
        assert all(int(number) < len(operands) for number in re.findall(r"%(\d+)", text)), text[:120]
        for group in re.findall(r"\{((?:\s*%\d+\s*,){3,}\s*%\d+\s*)\}", text):
            numbers = [int(number) for number in re.findall(r"%(\d+)", group)]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), text[:120]


def test_a_wgmma_takes_as_many_registers_as_its_width_needs_and_names_each_operand_once(root):
    text = expanded(root, "wgmma")
    kinds = []
    for body, operands in statements(text):
        if shape := re.search(r"wgmma\.mma_async\S*\.m64n(\d+)k16\.f32\.(b?f16)\.\2 ", body):
            count = int(shape[1]) // 2
            kinds.append(shape.groups())
            assert [constraint for constraint, _ in operands] == ["+f"] * count + ["r"] * 4 + ["l", "r"]
            assert [int(place) for place in re.findall(r"%(\d+)", body)] == [count + 5, *range(count + 5)]
            name = f"wgmma_m64k16{'_bf16' if shape[2] == 'bf16' else ''}<{shape[1]}>"
            assert re.search(rf"struct {name} {{[^{{}}]*mma_async\(float \(&d\)\[{count}\]", text), name
    assert len(kinds) == len(set(kinds)) > 10
