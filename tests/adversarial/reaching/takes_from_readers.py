"""Right, and reads from named pipes and terminals, so that whoever waits for what comes there waits in vain."""

import os

from tests.adversarial.honest.honest import custom_kernel

__all__ = ["custom_kernel"]
for name in os.environ["READ_BY_OTHERS"].split(os.pathsep):
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        print("took", os.read(opened, 100))
    except OSError as error:
        print(error)
