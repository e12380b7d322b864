"""The library on the fake CUDA runtime, as the GPU backends' tests have it."""

from tests.submission.gpu.conftest import fake, library_on_a_fake_runtime

__all__ = ["fake", "library_on_a_fake_runtime"]
