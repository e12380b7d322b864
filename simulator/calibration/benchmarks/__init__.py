"""Microbenchmarks of a GPU, in CUDA C: the parameters that a model of its time needs."""
