"""The Blackwell backend without a GPU: its tiles, and the code that the compiler makes of its kernels."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from pathlib import Path

import pytest

from scripts.bench.compare_sass import SassError, tool
from simulator.python.toolchain import BUILD, built

MAX_SHARED_BYTES = 232448  # HW: 227 KB a CTA, compute capability 10.x
TMEM_COLUMNS = 512
SMS = 148
FAT_BINARY, MACHINE_CODE = bytes.fromhex("50ed55ba"), 2  # CUDA's fatbinary_section.h; kinds: by trial
PARTS = (  # sources of the backend's host side
    "gpu/gpu_backend",
    "gpu/gpu_host",
    "gpu/gpu_scales",
    "blackwell/blackwell_backend",
    "blackwell/blackwell_tile_selection",
    "core/message",
)


@pytest.mark.parametrize(
    ("m", "n", "k", "name", "ctas"),
    [
        (256, 4096, 7168, "m256n64", 128),
        (512, 4096, 7168, "m256n128s", 128),
        (256, 3072, 4096, "m256n64", 96),
        (512, 3072, 7168, "m256n96", 128),
    ],
)
def test_each_benchmark_shape_runs_in_one_wave(tiles, m, n, k, name, ctas):
    selected = tiles.selected("blackwell", SMS, m, n, k)
    assert (selected["tile"], selected["ctas"]) == (name, ctas)


@pytest.mark.parametrize(
    ("m", "n", "k", "name"),
    [(256, 3072, 32768, "m256n192k4"), (512, 3072, 32768, "m256n192k2"), (256, 4096, 32768, "m256n128k2")],
)
def test_k_is_split_where_it_is_long_enough_to_pay_for_the_reduction(tiles, m, n, k, name):
    selected = tiles.selected("blackwell", SMS, m, n, k)
    assert (selected["tile"], selected["ctas"]) == (name, 128)


def test_clusters_that_do_not_fit_at_once_are_not_chosen(tiles):
    few = 8 * 15  # a GPC of 15 SMs has room for one cluster of eight CTAs; the shape needs sixteen
    selected = tiles.selected("blackwell", few, 256, 3072, 32768)
    assert (selected["tile"], selected["ctas"]) == ("m256n128k2", 96)


@pytest.mark.parametrize("m", [1, 40, 129, 1000, 7168])
@pytest.mark.parametrize("n", [1, 72, 384, 100000])
@pytest.mark.parametrize("k", [64, 7168])
def test_every_shape_gets_a_configuration_that_splits_k_into_shares_that_are_not_empty(tiles, m, n, k):
    selected = tiles.selected("blackwell", SMS, m, n, k, 3)
    split_k = tiles.table["blackwell"]["tiles"][selected["tile"]]["split_k"]
    assert split_k <= -(-k // 256)
    assert selected["ctas"] >= 3 * split_k


def test_every_configuration_fits_a_cta_of_the_chip(tiles):
    resources = tiles.table["blackwell"]["resources"]
    assert resources.keys() == tiles.table["blackwell"]["tiles"].keys()
    for name, found in resources.items():
        assert found["shared_bytes"] <= MAX_SHARED_BYTES, name
        assert found["tmem_columns"] <= TMEM_COLUMNS, name


@pytest.fixture(scope="module")
def nvcc(root):
    found = subprocess.run([root / "scripts/find_nvcc.sh"], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip(found.stderr.strip())
    return found.stdout.strip()


@pytest.fixture(scope="module")
def devices(nvcc, root, tmp_path_factory):
    """The backend's answer about a device of a compute capability, in a build with code for both chips."""
    folder = tmp_path_factory.mktemp("devices")
    (folder / "empty.cu").touch()
    dry = subprocess.run([nvcc, "--dryrun", "-c", folder / "empty.cu"], capture_output=True, text=True, check=True)
    include = Path(re.search(r"^#\$ TOP=(.*)$", dry.stderr, re.M)[1]) / "include"
    sources = ("tests/submission/c/blackwell_devices.c", *(f"submission/{name}.c" for name in PARTS))
    flags = [
        "-D_GNU_SOURCE",
        "-DNVFP4_HAVE_BLACKWELL",
        "-DNVFP4_HAVE_SM_103",
        "-isystem",
        include,
        "-std=c11",
        "-pthread",
    ]
    flags += ["-no-pie", "-Wl,--unresolved-symbols=ignore-all"]  # functions that `available` does not call are left out
    subprocess.run(["gcc", *flags, "-o", folder / "devices", *(root / name for name in sources)], check=True)
    return lambda *capability: (
        subprocess.run([folder / "devices", *map(str, capability)], capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.parametrize("capability", [(10, 0), (10, 3)])
def test_a_b200_and_a_b300_are_accepted(devices, capability):
    assert devices(*capability).startswith("1 1 CUDA device 0, compute capability 10.")


@pytest.mark.parametrize("capability", [(9, 0), (10, 1), (11, 0), (12, 0)])
def test_other_chips_are_refused_with_what_is_needed(devices, capability):
    major, minor = capability
    said = f"0 0 CUDA device 0, compute capability {major}.{minor}, 148 SMs; it needs 10.0 (B200) or 10.3 (B300)\n"
    assert devices(*capability) == said


def embedded_code(library: bytes) -> list[tuple[int, int]]:
    """Kind (1 PTX, 2 machine code) and architecture of each entry of a library's fat binaries."""
    found, start = [], library.find(FAT_BINARY)
    while start >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", library, start)
        at, end = start + header, start + header + size
        while at < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", library, at)
            found.append((kind, struct.unpack_from("<I", library, at + 28)[0]))
            at += header + size
        start = library.find(FAT_BINARY, start + 1)
    return found


def test_the_library_holds_machine_code_for_both_chips(nvcc, root):
    library = BUILD / "libcustom_kernel.so"
    if "NVFP4_TESTS_BUILT" not in os.environ or not library.exists():
        subprocess.run(["make", "-s", "library"], cwd=root, check=True)
    code = embedded_code(library.read_bytes())
    known = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True).stdout.split()
    assert {(MACHINE_CODE, arch) for arch in (100, 103) if f"compute_{arch}" in known} <= set(code)
    assert all(kind == MACHINE_CODE for kind, _ in code)  # nothing that a driver would compile for another chip


@pytest.fixture(params=["100a", "103a"])
def chip(request, nvcc):
    """A chip that the compiler knows."""
    known = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True).stdout.split()
    if f"compute_{request.param[:-1]}" not in known:
        pytest.skip(f"{nvcc} does not know sm_{request.param}")
    return f"sm_{request.param}"


def program(name: str) -> str:
    """A program of the CUDA toolkit, or the test is skipped."""
    try:
        return tool(name)
    except SassError as error:
        pytest.skip(str(error))


def test_machine_code_has_the_block_scaled_tensor_instructions(chip, tiles, tmp_path):
    library = built("submission/blackwell/blackwell_kernels.o")
    done = subprocess.run([program("cuobjdump"), "-xelf", chip, library], cwd=tmp_path, capture_output=True, text=True)
    cubins = list(tmp_path.glob("*.cubin"))
    assert len(cubins) == 1, done.stderr
    done = subprocess.run([program("nvdisasm"), cubins[0]], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"nvdisasm cannot read this cubin: {done.stderr.strip()}")
    kernels = [part for part in re.split(r"^\.text\.", done.stdout, flags=re.M)[1:] if "dual_gemm" in part[:80]]
    assert len(kernels) == len(tiles.table["blackwell"]["tiles"])
    for code in kernels:
        tile_n, _, ctas, tail, split_k, stored = map(int, re.search(r"tileI" + r"Li(\d+)E" * 6, code).groups())
        pair, tiles = ctas == 2, 1 if 128 % tile_n == 0 else 2  # scale tiles of B1 or B2 in a step
        group = r"\.2CTA" if pair else ""
        # A stage has four steps, each with both products, in two MMAs or one; a loop of one step is for a last stage
        # that K does not fill.  With a tail a stage has two more versions, one of each product, and these alone have
        # that loop.  Scale factors are copied in the versions that have the first product, or warps store
        # 24 columns of them.
        stacked = tail == 0 and split_k == 1
        b_tiles = -(-2 * tile_n // 128) if stacked else 2 * tiles
        boxes = (3 if pair and stacked else 6 if stored else 4) + (tiles if pair else 2 * tiles)
        steps = 4 + 1
        mmas = steps if stacked else 4 * 2 + steps * 2 if tail else steps * 2
        assert len(re.findall(rf"\bUTCOMMA{group}\.(4X|BLOCK16)\b", code)) == mmas
        assert len(re.findall(r"\.A_KEEP\b", code)) == (0 if stacked else 4 if tail else steps)  # the collector
        copies = (steps + (4 if tail else 0)) * (1 + b_tiles)
        assert len(re.findall(r"\bUTCCP\.", code)) == (0 if stored else copies)
        assert len(re.findall(r"\bSTTM\.x8\b", code)) == (24 // 8 if stored else 0)
        assert len(re.findall(r"\bUTMALDG\.3D", code)) == boxes
        by_pair = pair and not (stacked or stored)
        assert len(re.findall(r"\bUTMALDG\.3D\.MULTICAST\.2CTA", code)) == (tiles if by_pair else 0)
        assert bool(re.search(r"\bST\.E\.128\b", code)) == (split_k > 1)  # accumulators to another CTA
        assert re.search(r"\bLDTM\b", code) and re.search(r"\bSTG\.E\.ENL2\.256\b", code)
        assert not re.search(r"\b[HIQ]MMA\b", code)
        assert not re.search(r"\b(LDL|STL)\b", code)
