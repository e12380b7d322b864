"""Judges a submission: python -m eval MODE CASES_FILE [options]."""

import sys

from eval.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
