"""How every launch of these tests ends, and what is said of text that cannot be read, is compared with a record.

A test asks for what it is about; the record holds the rest: each finding's words and place, how many there are, and
what was counted.  Launches in mode eager are made a second time, with time on a chip's clock, and another record says
how long they take.  After a change that is meant: `pytest -n 0 --record-outcomes tests/simulator`, or `--record-times`
where the clock is changed, and read what the record's difference names; then `--record-varying` twice, which marks
tests whose outcome depends on where the host puts memory.  Tests of text that a compiler made are left out, since
compilers differ, and of several host threads.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from scripts.common.ptxsim import Counters, PtxError, Sim
from tests.simulator.durations import duration

RECORD = Path(__file__).resolve().parent / "recorded_outcomes.json"
DURATIONS = RECORD.with_name("recorded_durations.json")
COMPILES = {"compile_cuda", "nvcc"}  # names that a module has whose tests may run a compiler
VARIES = "varies"
RECORDING = ("record_outcomes", "record_times", "record_varying")
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
def records(request: pytest.FixtureRequest):
    """By file: test -> how often it launched, and a digest of how that ended or how long it took, as recorded."""
    if not any(map(request.config.getoption, RECORDING)):
        return {path: json.loads(path.read_text()) for path in (RECORD, DURATIONS)}
    made: dict[Path, dict[str, str]] = {RECORD: {}, DURATIONS: {}}

    def save() -> None:
        for path, found in made.items():
            kept = json.loads(path.read_text()) if path.exists() else {}
            lines = (f"{json.dumps(name)}: {json.dumps(ended)}" for name, ended in sorted((kept | found).items()))
            path.write_text("{\n" + ",\n".join(lines) + "\n}\n")

    request.addfinalizer(save)
    return made


def name_of(item: pytest.Item) -> str:
    """File, function and which of its parameters: what pytest calls those differs with its version."""
    indices = getattr(getattr(item, "callspec", None), "indices", {})
    which = ",".join(f"{name}={at}" for name, at in sorted(indices.items()))
    return f"{item.path.stem}::{item.originalname}[{which}]"


def before_of(path: Path, name: str) -> str:
    """What a record's file says of a test."""
    return json.loads(path.read_text()).get(name, "") if path.exists() else ""


@pytest.fixture(autouse=True)
def launches_go_as_was_recorded(
    request: pytest.FixtureRequest,
    records: dict[Path, dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
):
    """Holds each launch of a test that passes, and each refusal of a text, against the records."""
    ended: list[list[str]] = []
    took: list[str] = []
    threads = []  # of several, any may be the one that finds a race
    texts: dict[int, str] = {}  # by simulator; of those whose launches are made with time too
    launch, create = Sim.launch, Sim.__init__
    folder = tmp_path_factory.getbasetemp()

    def launched(sim: Sim, *arguments, **options) -> int:
        if id(sim) in texts:
            took.append(duration(sim, texts[id(sim)], folder, launch, *arguments, **options))
        status = launch(sim, *arguments, **options)
        ended.append(outcome(sim, status))
        return status

    def created(sim: Sim, text: str, mode: str = "eager", *arguments, **options) -> None:
        threads.append(options.get("threads", arguments[1] if len(arguments) > 1 else 1))
        texts.pop(id(sim), None)
        try:
            create(sim, text, mode, *arguments, **options)
        except PtxError as error:
            ended.append([str(error)])
            raise
        if mode == "eager" and not options.get("chip") and "vprintf" not in text:
            texts[id(sim)] = text

    monkeypatch.setattr(Sim, "launch", launched)
    monkeypatch.setattr(Sim, "__init__", created)
    yield
    if COMPILES & set(vars(request.module)) or set(threads) - {1}:
        return
    name = name_of(request.node)
    digest = hashlib.sha256(json.dumps(ended).encode()).hexdigest()[:10]
    now = f"{len(ended)} {sum(len(one) - 1 for one in ended)} {digest}" if ended else ""
    lasted = f"{len(took)} {hashlib.sha256(json.dumps(took).encode()).hexdigest()[:10]}" if took else ""
    for path, option, found, told in (
        (RECORD, "record_outcomes", now, ended),
        (DURATIONS, "record_times", lasted, took),
    ):
        if request.config.getoption(option):
            if found:
                records[path][name] = found
        elif request.config.getoption("record_varying"):
            if found != before_of(path, name):
                records[path][name] = VARIES
        elif not any(map(request.config.getoption, RECORDING)) and (recorded := records[path].get(name, "")) != VARIES:
            assert found == recorded, f"not as {path.name} has it; see this folder's conftest.py: {told}"
