"""Judges a submission: python -m eval MODE [CASES_FILE] [options]."""

import importlib.util
import sys

from eval.output.protocol import FD_VARIABLE, SEED_VARIABLE, note_descriptor
from eval.sandbox import lifetime

NO_TORCH = 2  # wrong usage: the wrong Python


def run() -> int:
    """The command line, whose imports take seconds: signals are handled already."""
    if importlib.util.find_spec("torch") is None:
        print(
            f"eval.py: {sys.executable} has no torch; `./nvfp4 eval MODE` takes a Python that has it, and `make setup` "
            "makes one",
            file=sys.stderr,
        )
        return NO_TORCH
    lifetime.hide_command_line((SEED_VARIABLE, FD_VARIABLE))
    from eval.command import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    note_descriptor()
    sys.exit(lifetime.run_to_the_end(run))
