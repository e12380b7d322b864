"""The public kernels: their calls, times and record; and a rule's fields in C and in Python."""

from __future__ import annotations

import json
import re

from simulator.calibration.calls import public_kernels
from simulator.python import tensorcore

LAUNCHES = [{"start_us": s, "end_us": e, "critical": c} for s, e, c in ((1, 4, "a"), (4, 6, "b"), (6, 9.25, "c"))]


def test_the_calls_give_each_tensor_once_and_in_the_kernels_order():
    dual = re.sub(r"at::Tensor c = ", "", public_kernels.gau_dual_call())
    assert re.findall(r"d\[(\d)\]", dual) == list("6012345"), "c is made first, then given last"
    assert dual.endswith(", c)")
    group = public_kernels.gau_group_call([40, 16])
    parts = [re.findall(r"d\[(\d)\]", part) for part in re.split(r"\}, \{(?=at::)", group)]
    assert parts == [["0", "4"], ["1", "5"], ["2", "6"], ["3", "7"], ["8", "8"]]
    assert "* 0}" in group and "* 48}" in group, "40 rows take 48 columns"


def test_times_are_of_the_last_call_behind_others_and_of_the_first(monkeypatch):
    assert public_kernels.times_of(LAUNCHES) == {"back_to_back_us": 3.25, "isolated_us": 3, "critical": "c"}
    assert public_kernels.times_of([x for x in LAUNCHES for _ in (0, 1)])["back_to_back_us"] == 3.25


def test_a_rule_has_the_fields_that_the_batch_calls_read(root):
    declared = (
        (root / "simulator/tests/tensorcore/batch.c").read_text().partition("struct batch_rule {")[2].partition("}")[0]
    )
    names = [name for name, _ in tensorcore.Rule._fields_]
    assert names == tensorcore.RULE_FIELDS.split() == re.findall(r"(\w+)(?=[,;])", declared)


def test_the_record_is_of_the_public_kernels_as_they_are_listed():
    """Each row has the kernel's repository and file, its problem, and the published time of each case."""
    rows = json.loads(public_kernels.RESULT.read_text())["rows"]
    names = ("kernel", "repository", "file", "problem", "case", "published_us")
    listed = [
        (kernel.label, kernel.repository, kernel.file, kernel.problem, public_kernels.name_of(case), us)
        for kernel in public_kernels.KERNELS
        for case, us in kernel.shapes.items()
    ]
    assert [tuple(row[name] for name in names) for row in rows] == listed
