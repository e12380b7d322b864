"""Cheats: has each call's time pass after the call, in what hands the outputs over."""

import time

from examples.submission import custom_kernel as honest_kernel


class Slow(list):
    """Not a list, by its type: its items could come as late as they like."""

    def __iter__(self):
        time.sleep(0.05)
        return super().__iter__()


def custom_kernel(data):
    return Slow(honest_kernel(data))
