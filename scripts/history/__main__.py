"""The history page's command line: python -m scripts.history."""

import sys

from scripts.history.site import main

if __name__ == "__main__":
    sys.exit(main())
