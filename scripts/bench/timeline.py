"""A call's simulated timeline: a Chrome trace for Perfetto, and the critical resource of each launch.

    ./nvfp4 bench timeline 256 4096 7168 blackwell              # build/timeline.json
    ./nvfp4 bench timeline 256 3072 4096 hopper --to FILE.json

Rows are the warps of a launch's first cluster, its units, and memory.  The times are simulated, never measured.
"""

from __future__ import annotations

import argparse
import sys

from scripts.common.options import output_file, positive
from scripts.common.toolchain import BUILD
from simulator.calibration.b200.board import simulated_chip
from simulator.calibration.calls.board_times import clock_errors
from simulator.package.simulated_call import CHIPS, simulated_calls

CALLS = 3  # the last one counts as behind others
GROUPS_K = 64  # of which K is a multiple (custom_kernel.h)


def main(arguments: list[str]) -> int:
    """Simulates, writes the trace, prints a summary."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench timeline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("m", "n", "k"):
        parser.add_argument(name, type=positive)
    parser.add_argument("backend", choices=CHIPS)
    trace = str(BUILD / "timeline.json")
    parser.add_argument("--to", type=output_file, default=trace, metavar="FILE", help="where the trace goes")
    options = parser.parse_args(arguments)
    if options.k % GROUPS_K:
        parser.error(f"argument k: {options.k}; expected a multiple of {GROUPS_K}")
    target = options.to.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    shape = (options.m, options.n, options.k)
    with simulated_chip(options.backend) as chip:
        time = simulated_calls(shape, options.backend, timeline=target, **chip)
        behind = simulated_calls(shape, options.backend, CALLS, **chip)["launches"]
    each = len(behind) // CALLS
    behind_us = behind[-1]["end_us"] - behind[-1 - each]["end_us"]
    alone_us = time["launches"][-1]["end_us"] - time["launches"][0]["start_us"]
    what = f"{options.backend} {options.m} x {options.n} x {options.k} on {time['chip']} at {time['clock_ghz']} GHz"
    print(f"{what}; simulated, not measured: {behind_us:.1f} us behind other calls, {alone_us:.1f} us alone, as traced")
    for launch in time["launches"]:
        print(f"{launch['name']}: {launch['critical']}")
    error = f"{clock_errors()}, on public kernels" if options.backend == "blackwell" else time["error"]
    print(f"the clock's error: {error}")
    print(f"{target} (open it in Perfetto)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
