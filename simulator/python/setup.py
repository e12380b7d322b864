"""Builds the wheel of `ptxsim`: the module, and beside it the simulator's library, which make builds (a C compiler)."""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("BUILD") or "build") / "libptxsim.so"


class BuildWithLibrary(build_py):
    """Copies the module, then the library beside it."""

    def run(self) -> None:
        """Builds the library, which takes half a minute."""
        super().run()
        subprocess.run(["make", "-s", f"-j{os.cpu_count() or 1}", str(TARGET)], cwd=ROOT, check=True)
        shutil.copy(ROOT / TARGET, Path(self.build_lib) / "ptxsim" / TARGET.name)


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


scratch = ROOT / TARGET.parent / "ptxsim_wheel"
scratch.mkdir(parents=True, exist_ok=True)
setup(
    distclass=WithLibrary,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    options={"build": {"build_base": str(scratch)}, "egg_info": {"egg_base": str(scratch)}},
)
