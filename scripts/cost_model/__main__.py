"""The command line of the simulated times: python -m scripts.cost_model."""

import sys

from scripts.cost_model.clock import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
