"""The rounds' command line: python -m scripts.rounds."""

import sys

from scripts.rounds.commands import main

if __name__ == "__main__":
    sys.exit(main())
