"""The Hopper backend's compiled kernels on the simulator, and their mutants."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path

from simulator.python import forked
from simulator.python.toolchain import built

DRIVER = """
import json, sys
import torch
from reference.reference import check_implementation, generate_input
from submission.submission import custom_kernel
result = []
for m, n, k, blocked in json.loads(sys.argv[1]):
    data = generate_input(m=m, n=n, k=k, l=1, seed=7)
    data = tuple(data) if blocked else (*data[:3], *data[3:6], data[-1])
    full = generate_input(m=m, n=n, k=k, l=1, seed=7)
    out = custom_kernel(data)
    result.append(bool(check_implementation(full, out)[0]))
print(json.dumps(result))
"""


def run(
    shapes: list[tuple[int, int, int, bool]],
    report: Path,
    mode: str = "eager",
    ptx: Path | str = "",
    config: str = "",
    sms: str = "",
) -> tuple[list[bool] | None, dict, str]:
    environment = dict(
        os.environ,
        NVFP4_LIBRARY=str(built("libcustom_kernel_sim.so")),
        NVFP4_BACKEND="hopper",
        NVFP4_HOPPER_CONFIG=config,
        NVFP4_SIMULATE="1",
        NVFP4_SIMULATE_MODE=mode,
        NVFP4_SIMULATE_PTX=str(ptx),
        NVFP4_SIMULATE_JSON=str(report),
        **({"NVFP4_SIMULATE_SMS": sms} if sms else {}),
    )
    done = forked.run(DRIVER, [json.dumps(shapes)], environment, timeout=120)
    right = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    return right, json.loads(report.read_text()), done.stderr


@cache
def kernel_text() -> str:
    """The PTX of all kernels of the backend, as the simulated library holds it."""
    return built("submission/hopper/hopper_kernels.ptx").read_text()


MUTANTS = {
    "no fence after mbarrier.init": (r"fence\.mbarrier_init\.release\.cluster;", "", {"mbarrier-init-fence"}),
    "no wgmma.fence": (r"wgmma\.fence\.sync\.aligned;", "", {"missing-wgmma-fence"}),
    "no wgmma.commit_group": (r"wgmma\.commit_group\.sync\.aligned;", "", {"wgmma-register"}),
    "waits for too few groups": (
        r"wgmma\.wait_group\.sync\.aligned [01];",
        "wgmma.wait_group.sync.aligned 7;",
        {"wgmma-register"},
    ),
    "no griddepcontrol.wait": (r"griddepcontrol\.wait;", "", {"missing-griddepcontrol-wait"}),
    "expects too few bytes": (
        r"(mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[%r\d+\], )[%r\d]+;",
        r"\g<1>16;",
        {"deadlock", "tx-count"},
    ),
    "no mbarrier wait": (
        r"mbarrier\.try_wait\.parity\.shared::cta\.b64 p, \[%r\d+\], %r\d+;",
        "setp.eq.u32 p, 0, 0;",
        {"read-before-completion", "overwrite-while-read", "uninitialised-read", "mbarrier-arrivals"},
    ),
}

# Faults in how two CTAs that share K of a grouped tile add up their sums.
MEETING_MUTANTS = {
    "gives its sums without a release": (r"red\.release\.gpu", "red.relaxed.gpu", "global-race"),
    "takes sums without an acquire": (r"ld\.acquire\.gpu", "ld.relaxed.gpu", "global-race"),
    "no wait for the first sums": (
        r"(ld\.acquire\.gpu[^;]*;[^;]*setp\.lt\.u32[^;]*, )3;",
        r"\g<1>0;",
        "global-race",
    ),
    "no wait for the words to be zero": (
        r"griddepcontrol\.wait;((?:(?!griddepcontrol)[\s\S]){0,700}atom\.relaxed)",
        r"\1",
        "missing-griddepcontrol-wait",
    ),
}

FEW_ROWS = [(8, 64, 2304, True)]  # a narrow tile: three CTAs share K
NARROW_MUTANTS = {
    "no wait for copies": (r"cp\.async\.wait_group \d;", "", {"read-before-completion"}),
    "no wait for the cluster": (r"barrier\.cluster\.wait\.acquire;", "", {"no-mbarrier"}),
    "sums expect too few bytes": (
        r"(mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[%r\d+\], )%r\d+;",
        r"\g<1>16;",
        {"read-before-completion"},
    ),
}

# SHARED_K: four warpgroups of each CTA share K, and so do two CTAs of a cluster.  SHARED_A: the narrow tile of 16 rows,
# whose warps read rows of A that other warps dequantized (with 8 rows, a warp reads only its own); eight CTAs share its
# K, and each warp goes round its ring.  Barriers are
# numbered in the order of the kernel's text.
SHARED_K = ("m64n32k8", "dual_gemm_kernelINS_9dual_tileILi1ELi1ELi64ELi8ELi2ELi4E", [(64, 64, 1024, True)])
SHARED_A = ("m16", "narrow_dual_gemm_kernelINS_11narrow_tileILi16ELi2ELi4ELi1ELi4ELb1E", [(16, 64, 16384, True)])
# The narrow tile of 32 rows: in each phase a warpgroup multiplies rows of A that all of its warps dequantized.
TEAM = ("m32", "narrow_dual_gemm_kernelINS_11narrow_tileILi32ELi2ELi2ELi1ELi4ELb1E", [(17, 32, 9216, True)])
BARRIER_MUTANTS = {
    "no barrier before the warpgroups' sums": (SHARED_K, r"bar\.sync %r\d+, %r\d+;", 0, {"overwrite-while-read"}),
    "no barrier after the warpgroups' sums": (SHARED_K, r"bar\.sync %r\d+, %r\d+;", 1, {"read-after-write-race"}),
    "no wait for the cluster's stages": (SHARED_K, r"barrier\.cluster\.wait\.acquire;", 0, {"write-race"}),
    "no wait for the cluster's sums": (SHARED_K, r"barrier\.cluster\.wait\.acquire;", 1, {"read-after-write-race"}),
    "no barrier after the first rows of A": (SHARED_A, r"bar\.sync \s*0;", 0, {"async-read-race"}),
    "no fence after the first rows of A": (TEAM, r"fence\.proxy\.async\.shared::cta;", 0, {"missing-proxy-fence"}),
    "no fence after the next rows of A": (TEAM, r"fence\.proxy\.async\.shared::cta;", 1, {"missing-proxy-fence"}),
}


def without(text: str, kernel: str, pattern: str, number: int) -> str:
    """The text without the match of that number, from 0, in the kernel whose name holds `kernel`."""
    start = text.index("(", text.index(f"{kernel}", text.index(".entry")))
    end = text.find(".entry", start)
    found = list(re.compile(pattern).finditer(text, start, end if end >= 0 else len(text)))[number]
    return text[: found.start()] + text[found.end() :]
