"""The cost model's command line: python -m scripts.cost_model."""

import sys

from scripts.cost_model.compute import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
