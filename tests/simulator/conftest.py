"""How every launch of these tests ends, and what is said of text that cannot be read, is compared with a record.

A test asks for what it is about; the record holds the rest: each finding's words and place, how many there are, and
what was counted.  After a change that is meant: `pytest -n 0 --record-outcomes tests/simulator`, and read what the
record's difference names; then `--record-varying` twice, which marks tests whose outcome depends on where the host puts
memory.  Tests of text that a compiler made are left out, since compilers differ, and of
several host threads.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from scripts.common.ptxsim import Counters, PtxError, Sim

RECORD = Path(__file__).resolve().parent / "recorded_outcomes.json"
COMPILES = {"compile_cuda", "nvcc"}  # names that a module has whose tests may run a compiler
VARIES = "varies"
BY_HOST = {"seconds", "global_load_sectors", "global_store_sectors"}  # the last two by where the host puts memory
HOST_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def said_of(finding: dict) -> str:
    """A finding in words; addresses of the host differ from run to run, and so does what lies next to a buffer."""
    if finding["kind"] == "out-of-bounds":
        finding = {key: value for key, value in finding.items() if key not in ("message", "allocation", "offset")}
    return HOST_ADDRESS.sub("0x...", json.dumps(finding, sort_keys=True, default=list))


def outcome(sim: Sim, status: int) -> list[str]:
    """Status and verdict with a digest of all counters, and the findings so far."""
    counters = sim.counters
    counted = b"".join(
        bytes(counters)[at.offset : at.offset + at.size]
        for name, _ in Counters._fields_
        for at in [getattr(Counters, name)]
        if name not in BY_HOST
    )
    counted = hashlib.sha256(counted).hexdigest()[:8]
    words = HOST_ADDRESS.sub("0x...", sim.message()) if status != 0 else ""
    return [f"{status} {sim.verdict} {counted} {words}", *map(said_of, sim.findings)]


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest):
    """Test -> how often it launched and a digest of how that ended, as it was recorded."""
    if not any(map(request.config.getoption, ("record_outcomes", "record_varying"))):
        return json.loads(RECORD.read_text())
    made: dict[str, str] = {}

    def save() -> None:
        kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        lines = (f"{json.dumps(name)}: {json.dumps(ended)}" for name, ended in sorted((kept | made).items()))
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")

    request.addfinalizer(save)
    return made


def name_of(item: pytest.Item) -> str:
    """File, function and which of its parameters: what pytest calls those differs with its version."""
    indices = getattr(getattr(item, "callspec", None), "indices", {})
    which = ",".join(f"{name}={at}" for name, at in sorted(indices.items()))
    return f"{item.path.stem}::{item.originalname}[{which}]"


def before_of(name: str) -> str:
    """What the record's file says of a test."""
    return json.loads(RECORD.read_text()).get(name, "")


@pytest.fixture(autouse=True)
def launches_end_as_was_recorded(request: pytest.FixtureRequest, outcomes: dict, monkeypatch: pytest.MonkeyPatch):
    """Holds each launch of a test that passes, and each refusal of a text, against the record."""
    ended: list[list[str]] = []
    threads = []  # of several, any may be the one that finds a race
    launch, create = Sim.launch, Sim.__init__

    def launched(sim: Sim, *arguments, **options) -> int:
        status = launch(sim, *arguments, **options)
        ended.append(outcome(sim, status))
        return status

    def created(sim: Sim, *arguments, **options) -> None:
        threads.append(options.get("threads", arguments[3] if len(arguments) > 3 else 1))
        try:
            create(sim, *arguments, **options)
        except PtxError as error:
            ended.append([str(error)])
            raise

    monkeypatch.setattr(Sim, "launch", launched)
    monkeypatch.setattr(Sim, "__init__", created)
    yield
    if COMPILES & set(vars(request.module)) or set(threads) - {1}:
        return
    name = name_of(request.node)
    digest = hashlib.sha256(json.dumps(ended).encode()).hexdigest()[:10]
    now = f"{len(ended)} {sum(len(one) - 1 for one in ended)} {digest}" if ended else ""
    if request.config.getoption("record_outcomes"):
        if ended:
            outcomes[name] = now
    elif request.config.getoption("record_varying"):
        if now != before_of(name):
            outcomes[name] = VARIES
    elif (recorded := outcomes.get(name, "")) != VARIES:
        assert now == recorded, f"another outcome than was recorded; see this folder's conftest.py: {ended}"
