"""Runs simulator.calibration.calls.blackwell."""

import sys

from simulator.calibration.calls.blackwell import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
