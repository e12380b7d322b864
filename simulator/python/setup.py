"""Builds the wheel of `ptxsim`: the Python module and the simulator's library, which make compiles."""

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
    """Adds the library to the module."""

    def run(self) -> None:
        """Builds the library and copies it next to the module; takes half a minute."""
        super().run()
        make = ["make", "-s", f"-j{os.cpu_count() or 1}", "-f", "simulator/Makefile"]
        subprocess.run([*make, str(TARGET), str(TARGET.parent / "ptxsim")], cwd=ROOT, check=True)
        module = Path(self.build_lib) / "ptxsim"
        shutil.copy(ROOT / TARGET, module / TARGET.name)
        (module / "bin").mkdir(exist_ok=True)
        shutil.copy(ROOT / TARGET.parent / "ptxsim", module / "bin" / "ptxsim")
        # The CUDA runtime that `ptxsim run` preloads can be built only where CUDA's headers are.
        runtime = [
            str(TARGET.parent / "cuda" / name) for name in ("libcudart.so.12", "libcudart.so.13", "libcuda.so.1")
        ]
        if subprocess.run([*make, *runtime], cwd=ROOT, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            (module / "bin" / "cuda").mkdir(exist_ok=True)
            for library in (ROOT / TARGET.parent / "cuda").glob("*.so*"):
                shutil.copy(library, module / "bin" / "cuda" / library.name)


class WithLibrary(Distribution):
    """A wheel with machine code, but without an extension module that setuptools builds."""

    def has_ext_modules(self) -> bool:
        """Always true: the wheel contains the library."""
        return True


class PlatformWheel(bdist_wheel):
    """A wheel for one platform and any Python 3, since ctypes loads the library."""

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
