"""One thread for small models, and no reports of transformers."""

from __future__ import annotations

import importlib.util

import pytest
import torch


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    if importlib.util.find_spec("transformers"):
        from transformers.utils import logging

        logging.disable_progress_bar()
    yield
    torch.set_num_threads(threads)
