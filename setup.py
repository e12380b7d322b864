"""Builds the wheel of `nvfp4_gemm`: the folder submission/ under that name, with the C library that make builds.

All output goes to BUILD (default: build), so that a read-only checkout can be installed.  pyproject.toml defines the
wheel's contents, MANIFEST.in those of a source distribution.  With nvcc the build takes one to six minutes, with GPU=0,
which builds the CPU backend alone, seconds; pip shows it if it is called with -v.
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
    """Copies the modules, builds the library and copies it next to them."""

    def run(self) -> None:
        """Builds the package; with nvcc, the library takes a minute or two."""
        shutil.rmtree(Path(self.build_lib) / PACKAGE, ignore_errors=True)  # files of an older build
        super().run()
        subprocess.run(["make", f"-j{os.cpu_count() or 1}", "library"], cwd=ROOT, check=True)
        if not self.editable_mode:  # in an editable install the shim finds the library in BUILD
            shutil.copy(BUILD / LIBRARY_NAME, Path(self.build_lib) / PACKAGE / LIBRARY_NAME)


class WithLibrary(Distribution):
    """Declares that the wheel contains machine code although setuptools builds no extension module."""

    def has_ext_modules(self) -> bool:
        """True, because of the library."""
        return True


class PlatformWheel(bdist_wheel):
    """Tags the wheel for one platform and any Python 3: the library is called through ctypes."""

    def get_tag(self) -> tuple[str, str, str]:
        """The wheel's tags: any Python 3, no Python ABI, this platform."""
        return "py3", "none", super().get_tag()[2]


SCRATCH.mkdir(parents=True, exist_ok=True)
setup(
    distclass=WithLibrary,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    options={"build": {"build_base": str(SCRATCH)}, "egg_info": {"egg_base": str(SCRATCH)}},
)
