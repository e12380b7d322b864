"""Fetches third-party sources into a cache outside git: repositories at pinned commits, compilers as wheels."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

# The recorded rows were measured at these commits.
COMMITS = {
    "pranjalssh/fast.cu": "38eb642e0c081231d6f695978be63604bd7c689b",
    "gau-nernst/learn-cuda": "1454f8b71499a68eacdbf44c08e36a7003d8ab99",
    "NaregAmirianMegan/NVFP4_Kernels": "0a072dcf5db5ab4697b11b7498168bf087b9a899",
    "jIab-b/nvfp4_gemm": "92166a3d0b0e069fbcf07c8b017e4e47479202ea",
    "NVIDIA/cutlass": "7107b05535f8977f5ecb9d01ee203205b1fd9bc4",
    "deepseek-ai/DeepGEMM": "54e22612409371d6364144b69086735beb54e98b",
    "HazyResearch/ThunderKittens": "0b55588d2769dde0c7a9a606ffc015b0ca7a9551",
    "SemiAnalysisAI/microbench-blackwell": "9a068d853d5c3676939eb46fe21ff6d6a2a4133b",
    "patrick-toulme/pyptx": "bc3b0cadb966fccaaf1576f59cd1e6a2bde3cc04",
    "gau-nernst/gpu-mode-kernels": "aee9cda6b6444f774ce5eaee1ec1a5c84acaa521",
}
# Compilers that need no GPU, and headers, as wheels.
WHEELS = {"triton": "3.9.0", "nvidia-cutlass-dsl": "4.8.1", "nvidia-curand": "10.4.5.25"}
# Wheels that are unpacked for the CUDA sources in them, and not installed.
SOURCE_WHEELS = {"nvidia-cutlass": "4.2.0.0", "flashinfer-python": "0.7.2.post1"}
FETCH_LIMIT, INSTALL_LIMIT = 900, 1800  # seconds


class Unavailable(Exception):
    """A source cannot be fetched here; the message says why."""


@dataclass
class Sources:
    """A cache folder, checkouts that the caller already has, and the URL for fetching a repository."""

    cache: Path
    url: str = "https://github.com/{repository}"
    given: dict[str, Path] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def checkout(self, repository: str) -> Path:
        """The repository's tree at its pinned commit, fetched once; or the folder that the caller named."""
        if repository in self.given:
            return self.given[repository]
        if repository in self.missing:
            raise Unavailable(self.missing[repository])
        commit = COMMITS[repository]
        folder = self.cache / "checkouts" / f"{repository.replace('/', '+')}-{commit[:12]}"
        if not (folder / ".git/complete").exists():
            self._fetch(repository, commit, folder)
        return folder

    def commit(self, repository: str) -> str:
        """The checkout's commit, from git or from the file COMMIT in an exported tree."""
        folder = self.checkout(repository)
        if (folder / "COMMIT").exists():
            return (folder / "COMMIT").read_text().strip()
        show = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        done = subprocess.run(show, capture_output=True, text=True, check=False)
        return done.stdout.strip() or "unknown"

    def _fetch(self, repository: str, commit: str, folder: Path) -> None:
        url = self.url.format(repository=repository, name=repository.replace("/", "+"))
        folder.mkdir(parents=True, exist_ok=True)
        git = ["git", "-C", str(folder)]
        # A local repository serves a commit by its hash only with this option; others ignore it.
        serve = "git -c uploadpack.allowAnySHA1InWant=true upload-pack"
        pack = [f"--upload-pack={serve}"] if Path(url).is_dir() else []
        steps = (
            [*git, "init", "-q"],
            [*git, "fetch", "-q", "--depth", "1", *pack, url, commit],
            [*git, "checkout", "-q", "--force", "FETCH_HEAD"],
        )
        for step in steps:
            try:
                done = subprocess.run(step, capture_output=True, text=True, check=False, timeout=FETCH_LIMIT)
                said = done.stderr.strip() if done.returncode else ""
            except subprocess.TimeoutExpired:
                said = f"no answer in {FETCH_LIMIT} s"
            if said:
                shutil.rmtree(folder, ignore_errors=True)
                self.missing[repository] = f"{repository} cannot be fetched: {said.splitlines()[-1]}"
                raise Unavailable(self.missing[repository])
        (folder / ".git/complete").touch()

    def python(self) -> Path:
        """The Python of an environment in the cache that has the pinned wheels."""
        folder = self.cache / "venv"
        if "wheels" in self.missing:
            raise Unavailable(self.missing["wheels"])
        stamp, wanted = folder / "installed", "\n".join(f"{name}=={version}" for name, version in WHEELS.items())
        if not stamp.exists() or stamp.read_text() != wanted:
            install = [str(folder / "bin/python"), "-m", "pip", "install", "-q", *wanted.splitlines()]
            for step in ([sys.executable, "-m", "venv", str(folder)], install):
                try:
                    done = subprocess.run(step, capture_output=True, text=True, check=False, timeout=INSTALL_LIMIT)
                    said = done.stderr.strip() if done.returncode else ""
                except subprocess.TimeoutExpired:
                    said = f"not installed in {INSTALL_LIMIT} s"
                if said:
                    self.missing["wheels"] = f"the wheels cannot be installed: {said.splitlines()[-1]}"
                    raise Unavailable(self.missing["wheels"])
            # The DSL's examples need torch: this Python's, after the environment's own packages.
            site = Path(importlib.util.find_spec("torch").origin).parents[1]
            (next((folder / "lib").glob("python3*/site-packages")) / "project.pth").write_text(f"{site}\n")
            stamp.write_text(wanted)
        return folder / "bin/python"

    def unpacked(self, package: str) -> Path:
        """A folder with the contents of a package's wheel (SOURCE_WHEELS), without its dependencies."""
        if package in self.missing:
            raise Unavailable(self.missing[package])
        wanted = f"{package}=={SOURCE_WHEELS[package]}"
        folder = self.cache / "wheels" / wanted.replace("==", "-")
        if (folder / "complete").exists():
            return folder
        download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
        try:
            command = [*download, "-d", str(folder / "wheel"), wanted]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_LIMIT)
            said = (done.stderr.strip() or "no wheel") if done.returncode else ""
        except subprocess.TimeoutExpired:
            said = f"no answer in {INSTALL_LIMIT} s"
        if said:
            self.missing[package] = f"{wanted} cannot be downloaded: {said.splitlines()[-1]}"
            raise Unavailable(self.missing[package])
        with zipfile.ZipFile(next((folder / "wheel").glob("*.whl"))) as wheel:
            wheel.extractall(folder)
        (folder / "complete").touch()
        return folder

    def wheel(self, *patterns: str) -> Path:
        """A folder in the environment's packages, for instance of headers."""
        site = next((self.python().parents[1] / "lib").glob("python3*/site-packages"))
        return next(path for pattern in patterns for path in sorted(site.glob(pattern)))
