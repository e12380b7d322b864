"""Layers of a language model with NVFP4 weights, as modules of PyTorch that load a checkpoint's tensors."""
