"""Wrong: every call returns the same buffer."""

from tests.adversarial.honest.honest import custom_kernel as honest_kernel

_buffer = None


def custom_kernel(data):
    global _buffer
    if _buffer is None:
        _buffer = data[-1].clone()
    _buffer.copy_(honest_kernel(data))
    return _buffer
