"""Judges a submission: python -m eval MODE [CASES_FILE] [options]."""

import importlib.util
import os
import stat
import sys

from eval.output.protocol import FD_VARIABLE, SEED_VARIABLE, note_descriptor
from eval.sandbox import lifetime

NO_TORCH = 2  # the exit code of wrong usage


def run() -> int:
    """Runs the command line. Signals are handled already: its imports take seconds."""
    if importlib.util.find_spec("torch") is None and not {"-h", "--help"} & set(sys.argv[1:]):
        print(
            f"nvfp4 eval: {sys.executable} has no torch; `make setup` installs it, and `./nvfp4 eval MODE` uses that "
            "Python",
            file=sys.stderr,
        )
        return NO_TORCH
    os.umask(os.umask(0) & ~stat.S_IRWXU)  # the user's must not keep workers from files of their own
    lifetime.hide_command_line((SEED_VARIABLE, FD_VARIABLE))
    from eval.command import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    note_descriptor()
    sys.exit(lifetime.run_to_the_end(run))
