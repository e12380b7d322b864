"""A gated MLP in NVFP4: python examples/torch_mlp.py [FILE.safetensors or a model's folder] [model.layers.0.mlp.]"""

import sys

import torch
from nvfp4_gemm import GatedMLP

device = "cuda" if torch.cuda.is_available() else "cpu"
mlp = (GatedMLP.load(*sys.argv[1:]) if sys.argv[1:] else GatedMLP.random(256, 512)).to(device)
x = torch.randn(17, mlp.hidden, device=device)
format_error, kernel_error = mlp.errors(x)
print(f"{device}: {tuple(x.shape)} -> {tuple(mlp(x).shape)}")
print(f"relative error of NVFP4 activations {format_error:.2e}, of the kernels {kernel_error:.2e}")
