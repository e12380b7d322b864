"""Wrong: right on return, but a thread goes on writing."""

import threading
import time

from tests.adversarial.honest.honest import custom_kernel as honest_kernel


def custom_kernel(data):
    output = honest_kernel(data)

    def work():
        time.sleep(0.005)
        output.add_(1)

    threading.Thread(target=work).start()
    return output
