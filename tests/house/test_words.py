"""The vocabulary: words that GLOSSARY.md retired stay out of code."""

from __future__ import annotations

import re
import subprocess

import pytest

CODE = ("*.c", "*.h", "*.cu", "*.cuh", "*.py", "*.sh", "*.mk", "*.ptx", "Makefile")
# What may say them: this list, and the mapping from the rounds' names to today's.
EXEMPT = {"tests/house/test_words.py", "scripts/evidence/h200/hopper_cases.py"}
# Only words that mean nothing else here: `place`, `codes`, `tokens`, `sums` or `slot` are English, too.
RETIRED = {
    r"\bslabs?\b": "wgmma_m_block",
    r"find_place|\bshared_map\b": "tile_coord, struct shared_storage",
    r"tensor_address|\btensor_column\b": "tmem_addr, tmem_column",
    r"(?<!\.)\bexpand(s|ed|_kernel|_params)?\b|\bexpansion\b": "dequantize, dequantization",  # x.expand() is torch's
    r"block_scales|\binto blocks\b": "permute scale factors",
    r"exchange of sums": "DSMEM reduction",
    r"kernel in front|\bin front of\b|the lap before": "the previous kernel; before; the previous lap",
    r"overslept|oversleep": "missed wake-up",
    r"\baccus(e|ed|es|ation)\b|\bcomplain(s|t|ts)?\b": "report",
    r"\blanded\b|\blanding\b": "completed, completion",
    r"\bstand-in\b": "CUDA runtime shim",
    r"\bforeign\b": "third-party",
    r"\btoys\b": "adversarial submissions",
    r"\bthe account\b|account_(model|counters|render|tables)": "cost model",
    r"first[_ -]day": "bring-up",
    r"\bnobody\b": "no thread",
    r"\bback[ -]ends?\b": "backend",
}
WORDS = re.compile("|".join(RETIRED))
EACH = [re.compile(pattern) for pattern in RETIRED]  # one after another is quicker than all in one


def lines_of_code(root):
    """Path, number and text of each line of code that git knows in files that say a retired word."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", *CODE], capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in listed.stdout.split("\0"):
        if name and name not in EXEMPT:
            text = (root / name).read_text()
            lower = text.lower()
            if any(words.search(lower) for words in EACH):
                yield from ((name, number, line) for number, line in enumerate(text.splitlines(), 1))


def retired_words(lines):
    """What each line holds of the retired words."""
    said = []
    for name, number, line in lines:
        if found := WORDS.search(line.lower()):
            better = next(new for old, new in RETIRED.items() if re.search(old, found[0]))
            said.append(f"{name}:{number}: '{found[0]}' is now: {better}")
    return said


def test_no_retired_word_stands_in_code(root):
    assert not (said := retired_words(lines_of_code(root))), "\n".join(said)


def test_a_retired_word_is_found_with_its_place_and_the_word_to_use():
    said = retired_words([("a.c", 7, "struct place p = find_place(k);"), ("b.py", 1, "expected = 1  # a backend")])
    assert said == ["a.c:7: 'find_place' is now: tile_coord, struct shared_storage"]


def test_the_glossary_has_the_words_of_older_pages(root):
    glossary = (root / "GLOSSARY.md").read_text()
    for word in ("slab", "expansion", "overslept", "first day", "stand-in runtime", "back end"):
        assert word in glossary.split("## Words of older pages")[1], word
