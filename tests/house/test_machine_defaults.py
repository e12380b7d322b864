"""Calls whose default depends on the machine name their value: a tensor's device, the encoding of a bundle's text.

A tensor without a device fails on a card alone, and a file without an encoding under another locale alone.
"""

from __future__ import annotations

import ast
from collections import Counter

# Functions of torch that put a tensor on the default device unless they are given one.
MAKERS = {"arange", "as_tensor", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "tensor"}
MAKERS |= {"zeros"}
DEVICE_CODE = ("eval", "reference", "submission", "scripts/bench", "scripts/release")
# Tensors that are on the CPU on purpose, by top-level folder.
ON_THE_CPU = {"eval": 4, "reference": 1, "submission": 2}


def calls(root, folder):
    """File, called name, names of the keyword arguments of each call below a folder."""
    for path in sorted((root / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield path.relative_to(root).as_posix(), ast.unparse(node.func), {word.arg for word in node.keywords}


def test_tensors_are_made_on_a_named_device(root):
    found = [
        file
        for folder in DEVICE_CODE
        for file, name, keywords in calls(root, folder)
        if name.removeprefix("torch.") in MAKERS and name.startswith("torch.") and not keywords & {"device", None}
    ]
    assert Counter(file.split("/")[0] for file in found) == ON_THE_CPU, found


def test_a_bundles_text_is_read_and_written_as_utf_8(root):
    found = Counter(
        file
        for file, name, keywords in calls(root, "scripts/release")
        if name.endswith((".read_text", ".write_text")) and "encoding" not in keywords
    )
    assert found == {"scripts/release/bundle_loader.py": 3}, "these three files hold ASCII that the loader wrote"
