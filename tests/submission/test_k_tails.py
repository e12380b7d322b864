"""K of 16 n on the CPU, in every instruction set."""

from __future__ import annotations

import pytest

from tests.submission.cpu_kit import ISAS
from tests.submission.k_tails import differing


@pytest.mark.parametrize("isa", ISAS)
def test_every_call_takes_k_in_multiples_of_16(isa, monkeypatch):
    monkeypatch.setenv("NVFP4_CPU_ISA", isa)
    wrong = differing((16, 32, 48, 80, 96, 528, 1616), True, True)
    if any("cannot run" in text for text in wrong):
        pytest.skip(wrong[0])
    assert wrong == []
