"""Cheats: returns at once and lets a thread write the result."""

import threading
import time

from tests.adversarial.honest.honest import custom_kernel as honest_kernel


def custom_kernel(data):
    def work():
        time.sleep(0.002)
        honest_kernel(data)

    threading.Thread(target=work).start()
    return data[-1]
