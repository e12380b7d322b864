"""Writes a bring-up report's facts about the machine or the library."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
QUERY = (
    "name,driver_version,compute_cap,memory.total,clocks.max.sm,clocks.max.mem,power.limit,"
    "ecc.mode.current,mig.mode.current"
)
SOURCES = {".c", ".h", ".cu", ".cuh", ".py", ".mk"}


def answer(*command: str) -> str | None:
    """Output of a command, or None if it is missing or fails."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def tool(name: str, nvcc: str | None) -> str | None:
    """A CUDA tool's path: from PATH, next to the nvcc in use, or in the usual folder."""
    folders = [str(Path(nvcc).parent)] if nvcc else []
    places = os.pathsep.join([os.environ.get("PATH", ""), *folders, "/usr/local/cuda/bin"])
    return shutil.which(name, path=places)


def devices() -> dict[str, Any]:
    """The CUDA device that torch finds, which every later step uses, or the reason why there is none."""
    try:
        import torch
    except ImportError as error:
        return {"torch": None, "device": None, "reason": str(error)}
    found: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": None}
    if not torch.cuda.is_available():
        return found | {"reason": "torch sees no CUDA device"}
    properties = torch.cuda.get_device_properties(0)
    found["device"] = {
        "name": properties.name,
        "capability": [properties.major, properties.minor],
        "sms": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "l2_bytes": properties.L2_cache_size,
    }
    return found


def machine() -> dict[str, Any]:
    """Facts about GPU, driver, clocks, compilers and sources."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "submission").rglob("*")):
        if path.is_file() and path.suffix in SOURCES:
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    smi = answer("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader")
    nvcc = answer("scripts/find_nvcc.sh")
    return {
        **devices(),
        "nvidia_smi": dict(zip(QUERY.split(","), smi.splitlines()[0].split(", "), strict=False)) if smi else None,
        "nvcc": (answer(nvcc, "--version") or "").splitlines()[-1:] if nvcc else None,
        "cc": (answer("cc", "--version") or "").splitlines()[:1],
        "compute_sanitizer": tool("compute-sanitizer", nvcc),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)),
        "commit": answer("git", "rev-parse", "HEAD"),
        "changed_files": (answer("git", "diff", "--name-only", "HEAD") or "").splitlines(),
        "sources_sha256": digest.hexdigest(),
    }


def library() -> dict[str, Any]:
    """The built library's backends."""
    from submission.submission import backends

    override = os.environ.get("NVFP4_LIBRARY")
    return {"backends": [backend._asdict() for backend in backends()], "override": override}


def main(arguments: list[str]) -> int:
    """Writes the facts; returns 1 without a device, unless --without-device is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("machine", "library"))
    parser.add_argument("file", type=Path, metavar="FILE.json")
    parser.add_argument("--without-device", action="store_true", help="exit with 0 even if there is no device")
    options = parser.parse_args(arguments)
    found = machine() if options.what == "machine" else library()
    options.file.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2), flush=True)
    if reason := found.get("reason"):
        print(reason, file=sys.stderr)
    return 0 if options.what == "library" or found["device"] or options.without_device else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
