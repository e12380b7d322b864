"""What several products' scripts need: the library's tile table, the CUDA compiler, Markdown tables."""
