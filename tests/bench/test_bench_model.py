"""The times of a whole model, on a tiny one without a card."""

from __future__ import annotations

import json

import torch

from tests.submission.models.huggingface.needs import needs_transformers

needs_transformers()


def test_a_tiny_model_is_timed_on_the_cpu(tmp_path, monkeypatch, capsys):
    from scripts.bench import model

    monkeypatch.setattr(model, "REPLAYS", 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    file = tmp_path / "out.json"
    model.main(["--size", "tiny", "--context", "8", "--prefill", "32", "--json", str(file)])
    found = json.loads(file.read_text())["found"]
    assert list(found) == ["bf16", "W4A16", "W4A4", "token"]
    assert all(value > 0 for times in found.values() for value in times.values())
    assert found["W4A16"]["weights, GiB"] < 0.75 * found["bf16"]["weights, GiB"]
    assert "| decode, batch 8, ms |" in capsys.readouterr().out
