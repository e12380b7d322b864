"""The library, loaded for a test."""

from __future__ import annotations

import ctypes

import pytest

from tests.submission.cpu_kit import ISAS, Backend, runs_here


@pytest.fixture
def library(library_path, monkeypatch):
    monkeypatch.delenv("NVFP4_BACKEND", raising=False)
    library = ctypes.CDLL(str(library_path))
    library.custom_kernel_message.restype = ctypes.c_char_p
    return library


@pytest.fixture(params=ISAS)
def backend(request, library_path, monkeypatch):
    """The CPU backend with each instruction set that this machine has, in one thread."""
    reason = runs_here(library_path, request.param)
    if reason:
        pytest.skip(reason)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Backend(library_path, request.param, monkeypatch)
