"""Measures the SM clock under our Hopper kernels and under MMAs with pauses, on a card.

    python -m simulator.calibration.benchmarks.sm_clock OUT.json                  # half a minute on an H200
    python -m simulator.calibration.benchmarks.sm_clock OUT.json 256x4096x7168    # only these shapes

One kernel before and one after a round of calls read every SM's cycle counter and the card's timer.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from reference.reference import generate_input
from scripts.bench import provenance
from scripts.common.toolchain import nvcc
from simulator.calibration.h200.page import BOARD
from submission.submission import custom_kernel

SHAPES = [*BOARD, *(f"{m}x3072x4096" for m in (1, 8, 16, 32, 64, 128, 192, 384, 512, 1024))]
ROUNDS = 7
SMS = 132
COUNTS = (1, 8, 24)  # calls in a round
NO_MMAS = 0xFFFFFFFF
WHAT = (
    f"cycles a ns of the card's timer, median over the SMs and of {ROUNDS} runs: over a round of calls from a flushed "
    "cache (us of the round), or over a launch of laps of four MMAs m64n128k16 of two warpgroups with `pause` cycles "
    "after each lap (-1: no MMAs)"
)
PAUSES = (NO_MMAS, 0, 50, 100, 200, 400, 800, 1600, 6400)  # cycles
PLACES = ((SMS, 50), (SMS, 400), (SMS, 2000), (1, 400), (66, 400))  # CTAs and laps
LONG = 1000  # longer pauses get an eighth of the laps


def library(folder: Path) -> ctypes.CDLL:
    """Compiles probe.cu for this card."""
    target = folder / "probe.so"
    source = Path(__file__).with_name("probe.cu")
    include = str(Path(__file__).resolve().parents[1])
    chip = "-gencode=arch=compute_90a,code=sm_90a"
    flags = ["-std=c++17", "-I", include, "-O2", chip, "-Xcompiler", "-fPIC", "-shared"]
    subprocess.run([nvcc(), *flags, "-o", str(target), str(source)], check=True)
    return ctypes.CDLL(str(target))


class Card:
    """The counters on the card and the kernels that fill them."""

    def __init__(self, folder: Path) -> None:
        self.library = library(folder)
        self.queue = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.out = torch.zeros(2, 2 * SMS + 8, dtype=torch.int64, device="cuda")
        self.flush = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")

    def call(self, name: str, row: int, *values: int) -> None:
        """Runs a kernel of the library on a row of counters."""
        status = getattr(self.library, name)(self.queue, ctypes.c_void_p(self.out[row].data_ptr()), *values)
        if status != 0:
            raise RuntimeError(f"{name}: CUDA error {status}")

    def calls(self, data: list, count: int) -> tuple[float, float]:
        """Median GHz of all SMs over a round of calls from a flushed cache, and the us of the round."""
        found = []
        for _ in range(ROUNDS):
            self.flush.fill_(1)
            self.call("probe", 0)
            for i in range(count):
                custom_kernel(data[i])
            self.call("probe", 1)
            torch.cuda.synchronize()
            cycles, ns = (self.out[1] - self.out[0])[: 2 * SMS].reshape(SMS, 2).double().cpu().T
            found.append(((cycles / ns).median().item(), ns.median().item() / 1e3))
        return sorted(found)[ROUNDS // 2]

    def laps(self, ctas: int, noise: int, laps: int, pause: int) -> tuple[float, float]:
        """Median GHz of the CTAs, and the launch's us."""
        found = []
        for _ in range(ROUNDS):
            self.call("laps", 0, ctas, noise, laps, ctypes.c_uint32(pause))
            torch.cuda.synchronize()
            cycles, ns = self.out[0][: 2 * ctas].reshape(ctas, 2).double().cpu().T
            found.append(((cycles / ns).median().item(), ns[0].item() / 1e3))
        return sorted(found)[ROUNDS // 2]


def main(arguments: list[str]) -> int:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, metavar="OUT.json")
    parser.add_argument("shapes", nargs="*", metavar="MxNxK", help=f"default: {' '.join(SHAPES)}")
    options = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        card = Card(Path(folder))
        for shape in options.shapes or SHAPES:
            m, n, k = map(int, shape.split("x"))
            data = [generate_input(m=m, n=n, k=k, l=1, seed=1111 + i, device="cuda") for i in range(max(COUNTS))]
            for count in COUNTS:
                ghz, us = card.calls(data, count)
                rows.append({"shape": shape, "calls": count, "ghz": round(ghz, 3), "us": round(us, 2)})
            print(rows[-1], flush=True)
        for noise in (1, 0):
            for pause in PAUSES:
                for ctas, count in PLACES:
                    count = count // 8 if LONG < pause < NO_MMAS else count
                    ghz, us = card.laps(ctas, noise, count, pause)
                    said = {"ctas": ctas, "noise": noise, "laps": count, "pause": -1 if pause == NO_MMAS else pause}
                    rows.append({**said, "ghz": round(ghz, 3), "us": round(us, 2)})
    chip, driver = torch.cuda.get_device_name(0), provenance.nvidia_smi("driver_version")
    head = {"chip": chip, "driver": driver, "what": WHAT}
    lines = ",\n".join(json.dumps(row) for row in rows)
    options.file.write_text(f'{json.dumps(head)[:-1]},\n"rows": [\n{lines}\n]}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
