"""The example's MLP: a checkpoint's tensors from a file, against float64 within its own bound, and what it refuses."""

from __future__ import annotations

import importlib.util
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

import submission
from reference import extended_reference as extended


@pytest.fixture(scope="module")
def example(root):
    """examples/torch_mlp.py, which imports the package by its installed name."""
    sys.modules["nvfp4_gemm"] = submission
    try:
        spec = importlib.util.spec_from_file_location("torch_mlp", root / "examples" / "torch_mlp.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        del sys.modules["nvfp4_gemm"]
    return module


@pytest.fixture
def tensors(example):
    torch.manual_seed(1)
    return example.random_checkpoint(128, 192)


def test_its_quantize_is_the_librarys_rule(example):
    x = torch.randn(5, 64) * torch.tensor([[1e-4], [1.0], [3.0], [1e3], [0.0]])
    scale = torch.tensor([7.0])
    codes, factors = example.quantize(x, scale)
    want = extended.quantize(x, scale)
    assert torch.equal(factors.view(torch.uint8), want.scales)
    # The sign of zeros may differ.
    assert torch.equal(extended.nvfp4.decode_e2m1(codes), extended.nvfp4.decode_e2m1(want.codes))


@pytest.mark.parametrize("limit", [0.0, 0.5])
def test_a_checkpoints_layer_is_right_within_its_bound(example, tensors, tmp_path, limit):
    names = {f"model.layers.0.mlp.{name}": value for name, value in tensors.items()}
    save_file(names, tmp_path / "layer.safetensors")
    mlp = example.GatedMLP(load_file(tmp_path / "layer.safetensors"), "model.layers.0.mlp.", limit)
    for tokens in (1, 17, 130):
        x = torch.randn(tokens, 128)
        wanted, bound = example.expected(mlp, x)
        error = (mlp(x).double() - wanted).abs()
        assert (error <= bound).all()
        assert error.norm() < 0.13 * wanted.norm()  # NVFP4 of what is between, no more
    assert bound.mean() < 2 * wanted.abs().mean()


def test_a_scale_that_is_left_out_is_noticed(example, tensors):
    """The bound is no empty promise: each global scale matters to it."""
    x = torch.randn(17, 128)
    for projection in ("gate_proj", "up_proj", "down_proj"):
        mlp = example.GatedMLP(tensors)
        setattr(mlp, f"{projection}_scale", getattr(mlp, f"{projection}_scale") * 2)
        wanted, bound = example.expected(mlp, x)
        assert not ((mlp(x).double() - wanted).abs() <= bound).all(), projection


def test_a_tensor_missing_from_a_checkpoint_is_named(example, tensors):
    with pytest.raises(KeyError, match=r"up_proj\.weight_scale"):
        example.GatedMLP({name: value for name, value in tensors.items() if name != "up_proj.weight_scale"})
    tensors["up_proj.input_global_scale"] = tensors["up_proj.input_global_scale"] * 2
    with pytest.raises(ValueError, match="gate_proj and up_proj differ in input_global_scale"):
        example.GatedMLP(tensors)
