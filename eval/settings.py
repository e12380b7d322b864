"""Says which of the user's settings cannot work, before anything runs: the submission is not to blame for them.

This module imports nothing that takes long.
"""

from __future__ import annotations

import os
import resource
import tempfile

from eval.timing import LIBRARY

SMALLEST_FILE_LIMIT = 1 << 20  # bytes: for the run's record and logs


def unusable() -> str:
    """Why a setting of the user cannot work; "" if all can."""
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most != resource.RLIM_INFINITY and most < SMALLEST_FILE_LIMIT:
        return f"files are limited to {most} bytes (ulimit -f); expected at least {SMALLEST_FILE_LIMIT}"
    if not LIBRARY.is_file():
        again = f" with BUILD={os.environ['BUILD']}" if os.environ.get("BUILD") else ""
        return f"{LIBRARY} does not exist; run `make build`{again}"
    for name, look in (("the current folder", os.getcwd), ("TMPDIR", tempfile.gettempdir)):
        try:
            look()
        except OSError as error:
            return f"{name}: {error.strerror}"
    return ""
