"""A mixture of experts in NVFP4: python examples/torch_moe.py [a model's folder, a prefix, experts a token]"""

import sys

import torch
from nvfp4_gemm import MoE

device = "cuda" if torch.cuda.is_available() else "cpu"
moe = MoE.load(*sys.argv[1:3], int(sys.argv[3])) if sys.argv[1:] else MoE.random(256, 128, experts=8, top_k=2)
moe = moe.to(device)
x = torch.randn(17, moe.hidden, device=device)
format_error, kernel_error = moe.errors(x)
print(f"{device}: {tuple(x.shape)} -> {tuple(moe(x).shape)}")
print(f"relative error of NVFP4 activations {format_error:.2e}, of the kernels {kernel_error:.2e}")
