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
# Tensors that are on the CPU on purpose, by file.
ON_THE_CPU = {
    "eval/lending/cuda.py": 1,
    "eval/lending/host.py": 2,
    "eval/output/mismatch.py": 1,
    "reference/extended.py": 1,
    "scripts/bench/baselines/cublas_submission.py": 2,
    "submission/group_gemm.py": 2,
}


def calls(root, folder):
    """File, called name, names of the keyword arguments of each call below a folder."""
    for path in sorted((root / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield path.relative_to(root).as_posix(), ast.unparse(node.func), {word.arg for word in node.keywords}


def test_tensors_are_made_on_a_named_device(root):
    found = Counter(
        file
        for folder in DEVICE_CODE
        for file, name, keywords in calls(root, folder)
        if name.removeprefix("torch.") in MAKERS and name.startswith("torch.") and not keywords & {"device", None}
    )
    assert found == ON_THE_CPU


def test_a_bundles_text_is_read_and_written_as_utf_8(root):
    found = Counter(
        file
        for file, name, keywords in calls(root, "scripts/release")
        if name.endswith((".read_text", ".write_text")) and "encoding" not in keywords
    )
    assert found == {"scripts/release/bundle_loader.py": 3}, "these three files hold ASCII that the loader wrote"
