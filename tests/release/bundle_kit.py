"""The loader of a bundle as a target has it, for the tests of what it compiles."""

from __future__ import annotations

from scripts.release import bundle_loader
from scripts.release.bundle import LINK_FLAGS, TARGETS, collect_sources


def configure(monkeypatch, target):
    """The loader as it stands in the target's bundle."""
    plan = TARGETS[target]
    monkeypatch.setattr(bundle_loader, "_SOURCES", collect_sources(target))
    monkeypatch.setattr(bundle_loader, "_C_FLAGS", plan.c_flags)
    monkeypatch.setattr(bundle_loader, "_LINK_FLAGS", LINK_FLAGS)
    monkeypatch.setattr(bundle_loader, "_OPTIONAL", {end: (flags, macro) for end, flags, macro in plan.optional})
    monkeypatch.setattr(bundle_loader, "_NVCC_FLAGS", plan.nvcc_flags)


def macros(command):
    return {word.removeprefix("-DNVFP4_HAVE_") for word in command if word.startswith("-DNVFP4_HAVE_")}
