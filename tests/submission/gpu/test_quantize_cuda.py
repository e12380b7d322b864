"""The quantizer on a CUDA device that a backend supports; skips where there is none."""

from __future__ import annotations

import pytest
import torch

from submission import backends
from tests.submission.quantize.on_device import wrong_on


def test_every_form_gives_the_promised_bits():
    if not torch.cuda.is_available() or not any(one.available and one.name != "cpu" for one in backends()):
        pytest.skip("no CUDA device that a backend supports")
    assert wrong_on("cuda") == []
