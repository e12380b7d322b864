"""Writes the clock's reports from the committed data; nothing is simulated.

python -m simulator.calibration.report          # build/clock/, and the committed page CLOCK.md
python -m simulator.calibration.report --check  # exit 1 if CLOCK.md or a chip's error line is not current
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from simulator.calibration.b200 import page as b200
from simulator.calibration.calls import blackwell
from simulator.calibration.h200 import page as h200
from simulator.calibration.h200 import targets
from simulator.calibration.rows import CHIPS, RESULTS, load, parameters_of
from simulator.python.markdown import table
from simulator.python.toolchain import BUILD

PAGE = RESULTS / "CLOCK.md"
EVIDENCE = ("measured", "published", "fitted", "assumed")
NAMES = {"h200": "H200", "b200": "B200", "rtx5090": "RTX 5090"}
WORST = 2
FINER = """Finer mechanisms were settled by 1,206 rows more, whose programs are in git alone
(`git show 6fd25e8b:simulator/calibration/benchmarks/`) and whose values are in
[h200_micro](../calibration/data/h200_micro.csv.gz). With them 1,197 of 2,010 rows lay within 5 %, the median at
3.8 %."""


def classes() -> str:
    """A table: how many parameters of each chip have which class of evidence."""
    rows = []
    for chip, name in NAMES.items():
        counts = Counter(entry["source"].split(":")[0].split()[0] for entry in parameters_of(chip).values())
        if unknown := set(counts) - set(EVIDENCE):
            raise ValueError(f"{chip}.json: sources begin with {', '.join(sorted(unknown))}, not {', '.join(EVIDENCE)}")
        rows.append([name, *(str(counts[evidence]) for evidence in EVIDENCE)])
    return table(["chip", *EVIDENCE], rows, len(EVIDENCE))


def page() -> str:
    """The committed page: how far the clock can be trusted on each chip."""
    ours, published = load("h200"), load("b200") | b200.public_rows()
    groups = h200.groups_of(ours)
    return f"""# How far the simulated clock can be trusted

Written by `make clock-report`, which also writes every row to `build/clock/`.
How the mechanisms were found: [notes](../calibration/notes/README.md). Parameters by class of evidence:

{classes()}

## H200: compared with a card

Parameters were fitted on microbenchmarks only; kernels validate. Errors are predicted over measured.{h200.older(ours)}

{targets.text(groups)}

{h200.summaries(groups)}

{h200.worst(ours, WORST)}

The microbenchmarks above measure what a clock needs first. {FINER}

## B200: compared with published times

{b200.first_of_all(published)}

No B200 of ours has run anything. Other people's programs run on the simulator, beside the times that they published.

{b200.summaries(published)}

The target is the median's; for the ring, the ladders and the public kernels the mean's.{b200.older(published)}
{b200.order_line(published, b200.OWN_CLOCK)}
{b200.public_order()}

{b200.worst(published, 0)}

## RTX 5090: not compared

No RTX 5090 has run these kernels or been compared with the clock.
"""


def error_lines() -> dict[Path, str]:
    """The line about the model's error that every simulator report shows, by the file that keeps it."""
    return {
        CHIPS / "h200.error": h200.error_line(load("h200")) + "\n",
        CHIPS / "b200.error": b200.error_line(load("b200")) + "\n",
    }


def committed() -> dict[Path, str]:
    """The committed files that the data determine."""
    return error_lines() | {PAGE: page()}


def write_reports(folder: Path) -> None:
    """Writes the full reports."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "h200.md").write_text(h200.render(load("h200")))
    (folder / "b200.md").write_text(b200.render(load("b200")))
    (folder / "blackwell.md").write_text(blackwell.report(json.loads(blackwell.RESULT.read_text())))


def main(arguments: list[str]) -> int:
    """Writes, or checks the committed files."""
    parser = argparse.ArgumentParser(
        prog="python -m simulator.calibration.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--to", type=Path, default=BUILD / "clock", metavar="FOLDER", help="of the full reports")
    options = parser.parse_args(arguments)
    stale = [path for path, text in committed().items() if not path.is_file() or path.read_text() != text]
    if options.check:
        for path in stale:
            print(f"{path.name}: not what the data give; run `make clock-report`", file=sys.stderr)
        return int(bool(stale))
    for path, text in committed().items():
        if path in stale:
            path.write_text(text)
    write_reports(options.to)
    print(f"{options.to}: h200.md, b200.md, blackwell.md; {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
