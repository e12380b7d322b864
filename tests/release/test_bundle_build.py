"""The bundle compiles the same sources with the same flags as make; and the parts of the bundler."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from reference.problems import DEFAULT, PROBLEMS
from scripts.release import bundle, bundle_loader
from scripts.release.bundle import has_compiler, make_bundle
from scripts.release.bundle_targets import TARGETS, BundleError, collect_sources
from tests.release.bundle_kit import configure, macros

FOLDERS = {"b200": ("blackwell",), "h200": ("hopper",), "geforce": ("geforce",), "cpu": ()}
TARGETS_HERE = [name for name in TARGETS if has_compiler(name)]
WITHOUT_GROUPED = "-DNVFP4_WITHOUT_GROUPED"
WITHOUT_EXTENDED = "-DNVFP4_WITHOUT_EXTENDED"
SHIM = "submission/submission.py"


@pytest.fixture
def loader_commands(monkeypatch, tmp_path):
    """The compilations and the link that a target's loader would run."""

    def of(target, problem=DEFAULT):
        configure(monkeypatch, target, problem)
        batches = []
        monkeypatch.setattr(bundle_loader, "_run_all", lambda commands, folder, deadline: batches.append(commands))
        compilers = bundle_loader.find_compilers(target != "cpu")
        library = bundle_loader._build(tmp_path, compilers[0], compilers[1] if target != "cpu" else None)
        assert library == tmp_path / "libcustom_kernel.so"
        compilations, (link,) = batches
        assert all((tmp_path / name).read_text() == text for name, text in bundle_loader._SOURCES.items())
        return compilations, link

    return of


@cache
def make_commands(root, gpu):
    """The commands of `make library` in an empty build folder."""
    command = ["make", "-n", "-B", "library", f"GPU={gpu}", "BUILD=build/none"]
    printed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.replace("\\\n", " ")
    lines = [line for line in printed.splitlines() if re.match(r"\S*(gcc|cc|nvcc) -", line)]
    shutil.rmtree(root / "build" / "none", ignore_errors=True)
    return [shlex.split(re.split(r" && | -Xptxas -v >", line)[0]) for line in lines]


NAMES_A_FILE = {"-o", "-MF", "-isystem", "--keep-dir"}
BESIDE_THE_CODE = {"-MMD", "-MP", "-lineinfo", "--keep"}


def shaping(command):
    """The words of a command that affect code, sorted: no warnings, file names or macros of backends."""
    words, kept = command[1:], []
    while words:
        word = words.pop(0)
        if word in NAMES_A_FILE or (word == "-Werror" and words and words[0] == "all-warnings"):
            words.pop(0)
        elif word == "-Xcompiler":
            kept += [f"-Xcompiler {part}" for part in words.pop(0).split(",") if not part.startswith("-W")]
        elif word.startswith("-Wl,"):  # a bundle's library is loaded by path and needs no soname and no symbol versions
            kept += [] if word.startswith(("-Wl,-soname", "-Wl,--version-script")) else [word]
        elif not word.startswith(("-W", "-DNVFP4_HAVE_", "-gencode")) and word not in BESIDE_THE_CODE:
            kept += [word] if word.startswith("-") else []
    return sorted(set(kept))


# Sources that only the grouped GEMM, the extended one, or experts, the quantizer and the package's operators need.
# That a bundle links without them is shown by its trial (test_bundle.py).
GROUPED = re.compile(r"submission/\w+/grouped/|submission/gpu/(gpu_(grouped|schedule|gemv)|gemv)\.")
EXTENDED = re.compile(r"submission/\w+/extended/|submission/gpu/gpu_extended\.")
OTHERS = re.compile(
    r"submission/(?!core)\w+/(experts|quantize|routing)/|submission/torch/|"
    r"submission/gpu/(gpu_(quantize|quantize_team|pad)|pad_rows)\."
)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("target", TARGETS_HERE)
def test_every_source_is_compiled_and_linked_as_make_does(root, loader_commands, target, problem):
    compilations, link = loader_commands(target, PROBLEMS[problem])
    without = target != "cpu" and problem == "dual_gemm"
    assert all((WITHOUT_GROUPED in command) == without for command in compilations)
    extended = target == "h200" and problem == "gemm"  # one group may be a plain product of the extended GEMM
    assert all((WITHOUT_EXTENDED in command) == (target != "cpu" and not extended) for command in compilations)
    made = make_commands(root, int(target != "cpu"))
    by_source = {command[-1]: command for command in made if "-c" in command}
    others = {folder for folders in FOLDERS.values() for folder in folders} - set(FOLDERS[target])
    wanted = {
        name
        for name in by_source
        if Path(name).parts[1] not in others
        and (target == "cpu" or not name.endswith(("_avx2.c", "_avx512.c", "_amx.c")))
        and not OTHERS.search(name)
        and (extended or not EXTENDED.search(name))
        and not (without and GROUPED.search(name))
    }
    assert {command[-1] for command in compilations} == wanted
    assert len(compilations) == len(wanted)
    for command in compilations:
        like = by_source[command[-1]]
        own = ("-DNVFP4_WITHOUT_", "-DNVFP4_TUNE_DEFAULT=true")
        assert [word for word in shaping(command) if not word.startswith(own)] == shaping(like), command[-1]
        if command[-1].endswith(".c"):
            assert (own[1] in command) == (target in ("b200", "h200"))
        assert command[-4:-1] == ["-c", "-o", f"{command[-1]}.o"]
        codes = [word for word in command if word.startswith("-gencode")]
        assert bool(codes) == command[-1].endswith(".cu") and set(codes) <= set(like), command[-1]
        assert (Path(command[0]).name == "nvcc") == command[-1].endswith(".cu")
        if command[-1].endswith(".c"):
            chosen = {
                "b200": {"BLACKWELL"},
                "h200": {"HOPPER"},
                "geforce": {"GEFORCE", "SM_121"},
                "cpu": {"AVX2", "AVX512", "AMX"} & macros(like),
            }[target]
            assert macros(command) == chosen
    (like,) = [command for command in made if "-c" not in command]
    # -ldl is for the CUDA runtime, and for the package's operators, which a bundle lacks.
    assert shaping(link) == [flag for flag in shaping(like) if flag != "-ldl" or target != "cpu"]
    assert [word for word in link if word.endswith(".o")] == [f"{command[-1]}.o" for command in compilations]
    assert [word for word in link if word.endswith(".a")] == [word for word in like if word.endswith(".a")]
    if target != "cpu":
        toolkit = next(path for path in map(Path, link) if path.name == "libcudart_static.a")
        headers = {command[command.index("-isystem") + 1] for command in compilations if command[-1].endswith(".c")}
        assert len(headers) == 1 and (Path(headers.pop()) / "cuda_runtime.h").is_file() and toolkit.is_file()


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_has_the_sources_of_its_parts(root, target):
    wanted = {path.relative_to(root).as_posix() for path in root.glob("submission/cpu/**/*.[ch]")}
    wanted -= {"submission/cpu/kernels/kernels_neon.c"}
    if target != "cpu":  # a GPU's bundle has only the portable CPU kernels
        wanted = {name for name in wanted if "/kernels/" not in name or name.endswith("_portable.c")}
    for folder in ("core", *FOLDERS[target], *(["gpu"] if FOLDERS[target] else [])):
        for path in (root / "submission" / folder).rglob("*"):
            if path.suffix in {".c", ".h", ".cu", ".cuh"}:
                wanted.add(path.relative_to(root).as_posix())
    wanted.add("submission/custom_kernel.h")
    # Most leaderboards do not need the extended GEMM: a GPU's bundle leaves it out, except headers that others include.
    everything, found = collect_sources(target, problem=PROBLEMS["group_gemm"]), collect_sources(target)
    left_out = wanted - set(everything)
    assert set(everything) <= wanted and all(EXTENDED.search(name) or OTHERS.search(name) for name in left_out)
    # The dual GEMM's bundle also leaves out the grouped GEMM.
    assert set(found) <= set(everything) and all(GROUPED.search(name) for name in set(everything) - set(found))
    kernels = {name for name in found if name.endswith((".cu", ".cuh"))}
    assert not any(GROUPED.search(name) for name in kernels)
    assert not any((EXTENDED.search(name) or OTHERS.search(name)) and "/gpu/" not in name for name in kernels)
    assert list(found) == sorted(found)


# --- parts of the bundler --------------------------------------------------------------------------------------


@pytest.fixture
def small(root, tmp_path):
    """A checkout with the minimum for a CPU bundle, for tests that change its files."""
    for name in (SHIM, "submission/shim.py", bundle.LOADER, *collect_sources("cpu")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("submission/shim.py", "from .library_file", "from torch", r"none of its modules imports .*library_file\.py"),
        (SHIM, '"""', 'text = """', "submission.py has no docstring"),
        (SHIM, "from __future__", "first = 1\nfrom __future__", "its imports and docstring do not come first"),
    ],
)
def test_a_shim_of_another_form_is_refused(small, name, old, new, message):
    path = small / name
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(BundleError, match=message):
        make_bundle("cpu", small)


@pytest.fixture(scope="module")
def cpu_tree():
    return ast.parse(make_bundle("cpu").text)


def test_the_loader_stands_in_the_place_of_the_packages_own_search(cpu_tree):
    functions = [node.name for node in cpu_tree.body if hasattr(node, "name")]
    assert functions.count("library_path") == 1
    assert functions.index("_build") < functions.index("library_path") < functions.index("custom_kernel")
    names = [
        node.targets[0].id for node in cpu_tree.body if hasattr(node, "targets") and hasattr(node.targets[0], "id")
    ]
    assert names.count("_COMPILE_LIMIT_S") == 1


def test_imports_are_merged_sorted_and_the_future_first():
    first = ast.parse("import os\nfrom b import y\nfrom __future__ import annotations\n")
    second = ast.parse("import abc\nimport os\nfrom b import x\nfrom a import z\n")
    assert bundle._imports(first, second) == (
        "from __future__ import annotations\n\nimport abc\nimport os\nfrom a import z\nfrom b import x, y\n"
    )


@pytest.mark.parametrize("line", ["import os as system", "from os import path as p", "from .x import y as z"])
def test_an_import_under_another_name_is_refused(line):
    with pytest.raises(BundleError, match=r"an import renames (os|path|y); a bundle's imports keep their names"):
        bundle._imports(ast.parse(line))


def test_a_text_becomes_a_literal_that_reads_as_it_is():
    texts = ("a\\n b\n", 'it\'s """ so\n', "''' and \"\n", '"starts so\n', "'starts so\n")
    assert [eval(bundle._literal("x", text)) for text in texts] == list(texts)


def test_a_line_of_the_bundle_belongs_to_one_piece():
    made = bundle.Bundle("", (bundle.Piece("a\nb\n"), bundle.Piece("c\nd\n", "file", 7), bundle.Piece("e\n", "other")))
    assert [made.origin(line) for line in range(1, 7)] == [None, None, ("file", 7), ("file", 8), ("other", 1), None]
    finding = bundle.Finding(4, 3, "rule", "why")
    assert bundle.locate(made, Path("out.py"), finding) == "file:8:3: rule: why"
    assert bundle.locate(made, Path("out.py"), finding._replace(line=2)) == "out.py:2:3: rule: why"


def test_without_git_the_commit_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bundle.describe_commit(tmp_path) == "an unknown commit (no git checkout)"


def test_a_change_of_the_bundler_itself_is_an_uncommitted_change(small):
    def git(*arguments):
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", "-C", str(small), *identity, *arguments], check=True, capture_output=True)

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "x")
    for name in bundle.OWN:
        assert "uncommitted" not in bundle.describe_commit(small)
        (small / name).write_text("# other\n")
        assert bundle.describe_commit(small).endswith(" with uncommitted changes"), name
        git("add", ".")
        git("commit", "--quiet", "-m", "y")


RIGHT = """
import pathlib
from reference.reference import oracle
assert [path.name for path in pathlib.Path().iterdir()] == ["submission.py"]
def backends():
    return []
def custom_kernel(data):
    return data[-1].copy_(oracle(data))
"""


def test_a_trial_catches_wrong_failing_and_hanging_bundles(monkeypatch):
    seconds, devices = bundle.try_bundle(RIGHT)
    assert seconds is not None and 0 < seconds < bundle.COMPILE_LIMIT_S and devices == "cpu"
    seconds, said = bundle.try_bundle(RIGHT.replace("oracle(data))", "oracle(data)).zero_()"))
    assert seconds is None and said.startswith("wrong result for M N K L = (128, 256, 256, 1) on cpu: ")
    beside = "import os, pathlib; so = pathlib.Path(os.environ['NVFP4_CACHE']).parent.samefile('.')"
    assert bundle.try_bundle(f"{beside}; raise SystemExit(f' it is {{so}} ')") == (None, "it is True")
    monkeypatch.setattr(bundle, "COMPILE_LIMIT_S", 0.2)
    assert bundle.try_bundle("import time; time.sleep(20)") == (None, "compiling and a trial took more than 0.2 s")
