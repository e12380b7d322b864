"""How often --baseline is right: against itself, and against a submission that is a tenth slower.

usage: ./nvfp4 python -m tests.eval.comparison_rates [--same 40] [--slower 10] [--seconds 60] [--device cpu]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import torch

from eval.cases import parse_case
from eval.comparison import run_comparison
from eval.stats import Bounds
from eval.supervisor import limits_for

CASE = "m: 128; n: 128; k: 256; l: 1; seed: 1111"
SLOWER = 1.1
# One thread, as on a machine with few processors. The slower one is busy for another tenth of the processor's time that
# it took: of the time on the clock, it would be more than a tenth where others interrupt it.
KERNEL = """
import time
import torch
from tests.adversarial.honest.honest import custom_kernel as honest
now = time.perf_counter
if not torch.cuda.is_available():
    torch.set_num_threads(1)
    now = time.thread_time
def custom_kernel(data):
    begin = now()
    output = honest(data)
    end = now()
    stop = end + {more} * (end - begin)
    while now() < stop:
        pass
    return output
"""


def main() -> int:
    """Runs the cases, one line each, and prints the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("same", 40), ("slower", 10), ("seconds", 60)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--case", default=CASE)
    options = parser.parse_args()
    device, said = torch.device(options.device), {1.0: [], SLOWER: []}
    with tempfile.TemporaryDirectory() as folder:
        for ratio in said:
            (Path(folder) / f"{ratio}.py").write_text(KERNEL.format(more=ratio - 1.0))
        for ratio in [1.0] * options.same + [SLOWER] * options.slower:
            one = run_comparison(
                Path(folder) / f"{ratio}.py", Path(folder) / "1.0.py", parse_case(options.case), device,
                limits_for(device, "benchmark"), bounds=Bounds(seconds=options.seconds),
            )  # fmt: skip
            verdict = one.verdict if one.ratio else one.own.error or one.baseline.error
            print(ratio, one.ratio, len(one.own.rounds_us), "pairs:", verdict, flush=True)
            said[ratio].append((verdict, one.ratio and one.ratio.low <= ratio <= one.ratio.high))
    for ratio, found in said.items():
        called = sum(verdict in ("faster", "slower") for verdict, _ in found)
        held = sum(bool(inside) for _, inside in found)
        print(f"{ratio}: {called} of {len(found)} called different; {held} intervals hold it")
    return 0


if __name__ == "__main__":
    if os.environ.get("OMP_WAIT_POLICY") != "passive":  # as the harness has it before it imports torch
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.execv(sys.executable, [sys.executable, "-m", "tests.eval.comparison_rates", *sys.argv[1:]])
    raise SystemExit(main())
