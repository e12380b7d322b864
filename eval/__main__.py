"""Judges a submission: python -m eval MODE [CASES_FILE] [options]."""

import importlib.util
import sys

NO_TORCH = 2  # wrong usage: the wrong Python

if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print(
            f"eval.py: {sys.executable} has no torch; `./nvfp4 eval MODE` takes a Python that has it, and `make setup` "
            "makes one",
            file=sys.stderr,
        )
        sys.exit(NO_TORCH)
    from eval.command import main

    sys.exit(main(sys.argv[1:]))
