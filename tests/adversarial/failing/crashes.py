"""Wrong: takes the process down."""

import os


def custom_kernel(data):
    print("about to crash", flush=True)
    os.kill(os.getpid(), 11)
