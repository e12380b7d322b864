"""Wrong: has no custom_kernel."""
