"""Builds the wheel of `nvfp4_gemm`: the folder submission/ under that name, with the C library that make builds.

Everything that is written goes under BUILD (default build), so that a checkout that is not writable can be installed
from.  What a wheel is made of stands in pyproject.toml.
"""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / os.environ.get("BUILD", "build")
SCRATCH = BUILD / "wheel"
PACKAGE = "nvfp4_gemm"
LIBRARY_NAME = "libcustom_kernel.so"


class BuildWithLibrary(build_py):
    """Copies the modules, then the library beside them."""

    def run(self) -> None:
        """Builds the library, which takes a minute or two where an nvcc is."""
        shutil.rmtree(Path(self.build_lib) / PACKAGE, ignore_errors=True)  # what a module of an older build left
        super().run()
        subprocess.run(["make", f"-j{os.cpu_count() or 1}", "library"], cwd=ROOT, check=True)
        if not self.editable_mode:  # an editable package is the checkout, where the shim looks in BUILD
            shutil.copy(BUILD / LIBRARY_NAME, Path(self.build_lib) / PACKAGE / LIBRARY_NAME)


class WithLibrary(Distribution):
    """The wheel holds machine code, though no extension module that setuptools would build."""

    def has_ext_modules(self) -> bool:
        """Always: the library."""
        return True


class PlatformWheel(bdist_wheel):
    """The library is the platform's; ctypes calls it, so any Python version can load it."""

    def get_tag(self) -> tuple[str, str, str]:
        """The wheel's tags: any Python 3, no Python ABI, this platform."""
        return "py3", "none", super().get_tag()[2]


SCRATCH.mkdir(parents=True, exist_ok=True)
setup(
    distclass=WithLibrary,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    options={"build": {"build_base": str(SCRATCH)}, "egg_info": {"egg_base": str(SCRATCH)}},
)
