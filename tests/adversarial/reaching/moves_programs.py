"""Right, and puts a program of the user's on a single processor."""

import os

from tests.adversarial.honest.honest import custom_kernel

__all__ = ["custom_kernel"]
try:
    os.sched_setaffinity(int(os.environ["PROGRAM_OF_USER"]), {min(os.sched_getaffinity(0))})
except OSError as error:
    print(error)
