"""Wrong: cannot be imported."""

raise RuntimeError("nvcc failed")
