"""Tools for bundle tests: a target's loader, compilers that are shell scripts, a stand-in for torch.

Importing torch takes longer than most of these tests; TORCH has all that a bundle uses of it before its first call.
"""

from __future__ import annotations

from pathlib import Path

from reference.problems import DEFAULT
from scripts.release import bundle_loader, bundle_targets
from scripts.release.bundle_targets import LINK_FLAGS, collect_sources

TORCH = """
from types import SimpleNamespace
float4_e2m1fn_x2 = float8_e4m3fn = float16 = SimpleNamespace(itemsize=2)
"""
# Shell script of a compiler that compiles nothing and links by copying.
COPIES = """
case "$*" in *" -o "*) while [ "$1" != -o ]; do shift; done ;; esac
case "$2" in *.so) cp "{library}" "$2" ;; *.o) : > "$2" ;; esac
"""


def compiler(path: Path, script: str) -> str:
    """A shell script as the C compiler."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def copying_compiler(path: Path, library: Path, before: str = "") -> str:
    """A C compiler that runs `before` and outputs a library that is already built."""
    return compiler(path, before + COPIES.format(library=library))


def configure(monkeypatch, target, problem=DEFAULT):
    """The loader with the constants of a target and problem, as in their bundle."""
    plan = bundle_targets.plan(target, problem)
    monkeypatch.setattr(bundle_loader, "_SOURCES", collect_sources(target, problem=problem))
    monkeypatch.setattr(bundle_loader, "_C_FLAGS", plan.c_flags)
    monkeypatch.setattr(bundle_loader, "_LINK_FLAGS", LINK_FLAGS)
    monkeypatch.setattr(bundle_loader, "_OPTIONAL", {end: (flags, macro) for end, flags, macro in plan.optional})
    monkeypatch.setattr(bundle_loader, "_NVCC_FLAGS", plan.nvcc_flags)


def macros(command):
    return {word.removeprefix("-DNVFP4_HAVE_") for word in command if word.startswith("-DNVFP4_HAVE_")}
