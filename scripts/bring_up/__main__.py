"""The bring-up's command line: python -m scripts.bring_up."""

import sys

from scripts.bring_up.protocol import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
