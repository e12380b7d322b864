"""The page of mutants in simulator/results, and the full table, from mutants.csv."""

from __future__ import annotations

from simulator.python.markdown import table

INTRODUCTION = """A mutant is a correct kernel with one synchronisation removed or altered at one place. It counts as
found where every mode reports it. A false alarm is a finding on the kernel as it is. `wrong values` counts the
mutants whose values are wrong, or that do not end, in some mode: a comparison of outputs would have shown these, and
only these. `./nvfp4 validate mutants.mutant_table` runs everything (needs torch and an nvcc; minutes); the tests of
`simulator/tests/hazard` and `simulator/tests/package/kernels` run a part. `./nvfp4 validate report` prints every row of
`mutants.csv`."""
NOT_COMPARED = ["not compared"]


def count(rows: list[dict], key: str) -> int:
    return sum(row[key] for row in rows)


def summary(rows: list[dict]) -> str:
    """The page: a line for each kernel."""
    body = []
    for suite, kernel in dict.fromkeys((row["suite"], row["kernel"]) for row in rows):
        mine = [row for row in rows if (row["suite"], row["kernel"]) == (suite, kernel)]
        mutants = [row for row in mine if row["mutant"]]
        as_it_is = [row for row in mine if not row["mutant"]]
        compared = [row for row in mutants if row["wrong_in"] != NOT_COMPARED]
        wrong = str(sum(bool(row["wrong_in"]) for row in compared)) if compared else "not compared"
        alarms = f"{count(as_it_is, 'found')} of {count(as_it_is, 'places')}" if as_it_is else "by its tests"
        cells = [str(len(mutants)), str(count(mutants, "places")), str(count(mutants, "found")), wrong, alarms]
        body.append([f"{suite}, {kernel}" if kernel else suite, *cells])
    mutants = [row for row in rows if row["mutant"]]
    head = ["kernel", "mutants", "places", "found", "wrong values", "false alarms of runs"]
    found = f"{count(mutants, 'found')} of {count(mutants, 'places')} mutants are found in every mode."
    return "\n".join(["# Mutants", "", INTRODUCTION, "", found, "", table(head, body, 5)]) + "\n"


def page(rows: list[dict]) -> str:
    """Every row."""
    body = []
    for row in rows:
        if row["mutant"]:
            lists = (", ".join(row[key]) or "none" for key in ("verdicts", "kinds", "modes", "wrong_in"))
            name = f"{row['suite']}, {row['kernel']}" if row["kernel"] else row["suite"]
            body.append([name, row["mutant"], f"{row['found']} of {row['places']}", *lists])
    return table(["kernel", "mutant", "found", "verdict", "findings", "modes", "wrong values in"], body) + "\n"
