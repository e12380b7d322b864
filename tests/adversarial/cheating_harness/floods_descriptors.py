"""Cheats: answers every request in advance, on every pipe and socket that is open, and is gone before it is called."""

import json
import os
import stat

ANSWERS = ({"ok": ""}, {"ready": None}, {"done": 1.0}, {"ok": None})
MOST_DESCRIPTORS = 256

for descriptor in range(3, MOST_DESCRIPTORS):
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            os.set_blocking(descriptor, False)
            for answer in (ANSWERS[0], *ANSWERS[1:] * 8):
                os.write(descriptor, json.dumps(answer).encode())
    except OSError:
        continue
os._exit(0)
