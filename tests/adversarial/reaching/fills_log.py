"""Cheats: makes the log of what it prints as large as a file may be, repaints the terminal, and fails."""

import os
import sys

HUGE = 1 << 40
for size in (HUGE, 15 << 30):
    try:
        os.ftruncate(1, size)
    except OSError as error:
        print(error)
print("\x1b[2J\x1b[Hall tests pass\x07 \u202e\x9b31m", flush=True)
sys.stdout.buffer.write(b"\xff\xfe\x00\n")
raise ValueError("\x1b]0;owned\x07\ud800\nsecond line")
