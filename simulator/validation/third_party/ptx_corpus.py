"""PTX that others collected for their parsers: the simulator reads what ptxas assembles, or says why not."""

from __future__ import annotations

import ctypes
import itertools
import re
import subprocess
from pathlib import Path

from simulator.python.frame import PtxError, Sim
from simulator.python.toolchain import nvcc
from simulator.validation.third_party.third_party_sources import Sources

REPOSITORY, FOLDER = "patrick-toulme/pyptx", "tests/corpus"
OLDEST = "sm_75"  # oldest chip of ptxas 13: texts for older chips are assembled for this one
KNOWN = re.compile(r"sm_(7[5-9]|[89]\d|1\d\d)[af]?$")


def assembled(path: Path) -> bool:
    """True if ptxas accepts the text for the chip that it names."""
    target = re.search(r"\.target\s+(\w+)", path.read_text(errors="replace"))
    chip = target[1] if target and KNOWN.match(target[1]) else OLDEST
    command = [str(Path(nvcc()).with_name("ptxas")), f"-arch={chip}", "-o", "/dev/null", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def unread(path: Path) -> str:
    """The reason why the simulator cannot read a text; empty if it can."""
    try:
        sim = Sim(path.read_text())
    except PtxError as error:
        return str(error)
    # A module loads although one of its kernels cannot be read.
    lib = sim.lib
    lib.sim_kernel_name.restype = lib.sim_unreadable.restype = ctypes.c_char_p
    index = itertools.count()
    kernels = iter(lambda: lib.sim_kernel_name(sim.module, ctypes.c_size_t(next(index))), None)
    return next((why.decode() for name in kernels if (why := lib.sim_unreadable(sim.module, name))), "")


def measure(sources: Sources) -> dict:
    """Counts, and each text that ptxas takes and the simulator does not, with its reason."""
    folder = sources.checkout(REPOSITORY) / FOLDER
    texts = sorted(folder.rglob("*.ptx"))
    reasons = {str(path.relative_to(folder)): unread(path) for path in texts}
    valid = {str(path.relative_to(folder)) for path in texts if assembled(path)}
    return {
        "project": REPOSITORY,
        "version": sources.commit(REPOSITORY),
        "texts": len(texts),
        "assembled": len(valid),
        "read": sum(not reasons[name] for name in valid),
        "refused_by_both": sum(bool(why) for name, why in reasons.items() if name not in valid),
        "unread": {name: why for name, why in reasons.items() if why and name in valid},
    }
