"""Wrong: raises."""


def custom_kernel(data):
    raise ValueError("no such shape")
