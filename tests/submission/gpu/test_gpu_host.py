"""The GPU backends' host side on a CUDA runtime that only writes down what it is asked (c/fake_cudart.c).

It has as many devices as a test wants, and any of its calls can be made to fail.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.submission.cpu_kit import (
    ARGUMENT,
    BLOCKED,
    DEVICE,
    INPUTS,
    OK,
    OUT_OF_MEMORY,
    ROWS,
    UNAVAILABLE,
    UNSUPPORTED,
    Args,
    Info,
)

HOPPER, BLACKWELL = "hopper", "blackwell"
NUMBERS = {HOPPER: 2, BLACKWELL: 3}
CHIPS = {HOPPER: (90, 132), BLACKWELL: (100, 148)}
MEMORY_ALLOCATION, BROKEN = 2, 999
POINTERS = (*INPUTS, "c")
ADDRESS = {name: (i + 1) << 52 for i, name in enumerate(POINTERS)}  # far apart: nothing reads there
SCRATCH = 1 << 61
QUEUE = 0xABC0
CLUSTERS = {1: 148, 2: 74, 4: 32, 8: 16}
LAYOUTS = pytest.mark.parametrize("layout", [BLOCKED, ROWS], ids=["blocked", "rows"])
BACKENDS = pytest.mark.parametrize("name", [HOPPER, BLACKWELL])


def up(x, y):
    return -(-x // y)


def round_up(x, y):
    return up(x, y) * y


@pytest.fixture(scope="module")
def built(root, tmp_path_factory):
    """The library's objects with the fake runtime."""
    build = root / os.environ.get("BUILD", "build")
    sources = [
        path for part in ("core", "cpu", "gpu", HOPPER, BLACKWELL) for path in (root / "submission" / part).glob("*.c*")
    ]
    objects = [(build / path.relative_to(root)).with_suffix(".o") for path in sources if path.suffix in (".c", ".cu")]
    objects = [path for path in objects if path.is_file()]
    if {HOPPER, BLACKWELL} - {path.parent.name for path in objects}:
        pytest.skip("the GPU backends are not built here")
    nvcc = subprocess.run([root / "scripts/find_nvcc.sh"], capture_output=True, text=True)
    if nvcc.returncode != 0:
        pytest.skip(nvcc.stderr.strip())
    folder = tmp_path_factory.mktemp("fake_cudart")
    (folder / "empty.cu").touch()
    dry = subprocess.run([nvcc.stdout.strip(), "--dryrun", "-c", folder / "empty.cu"], capture_output=True, text=True)
    include = Path(re.search(r"^#\$ TOP=(.*)$", dry.stderr, re.M)[1]) / "include"
    flags = ["-D_GNU_SOURCE", "-isystem", include, "-std=c11", "-fPIC", "-pthread", "-Wall", "-Werror"]
    flags += ["-shared", "-Wl,-Bsymbolic"]  # or the CUDA runtime of a torch in this process takes the fake one's place
    source = root / "tests" / "submission" / "c" / "fake_cudart.c"
    subprocess.run(["gcc", *flags, "-o", folder / "fake.so", source, *objects, "-lm"], check=True)
    return folder / "fake.so"


class Fake:
    """A fresh copy of the library, which has asked for nothing yet."""

    def __init__(self, built, folder):
        path = folder / "library.so"
        shutil.copy(built, path)
        self.core = ctypes.CDLL(str(path))
        self.core.custom_kernel_message.restype = ctypes.c_char_p
        self.devices([CHIPS[HOPPER], CHIPS[BLACKWELL]])
        clusters = (ctypes.c_int * 16).in_dll(self.core, "fake_clusters")
        for cluster, count in CLUSTERS.items():
            clusters[cluster] = count
        self.clusters = clusters

    def number(self, name):
        return ctypes.c_int.in_dll(self.core, f"fake_{name}")

    def devices(self, chips):
        self.number("devices").value = len(chips)
        for i, (capability, sms) in enumerate(chips):
            (ctypes.c_int * 80).in_dll(self.core, "fake_capability")[i] = capability
            (ctypes.c_int * 80).in_dll(self.core, "fake_sms")[i] = sms

    def fail(self, function="", error=BROKEN, successes=0):
        (ctypes.c_char * 64).in_dll(self.core, "fake_failing").value = function.encode()
        self.number("error").value = error
        self.number("successes").value = successes

    def call(self, name, device=None, m=300, n=500, k=320, batches=3, layout=BLOCKED, queue=QUEUE):
        """(status, message) of a call."""
        device = list(CHIPS).index(name) if device is None else device
        args = Args(ctypes.sizeof(Args), NUMBERS[name], device, layout, m, n, k, batches, **ADDRESS, queue=queue)
        self.core.fake_clear_log()
        status = self.core.custom_kernel(ctypes.byref(args))
        return status, self.core.custom_kernel_message().decode()

    def log(self, *kinds):
        """What was asked of the runtime in the last call, as words: all of it, or of some kinds."""
        text = (ctypes.c_char * (1 << 16)).in_dll(self.core, "fake_log").value.decode()
        lines = [[int(x) if re.fullmatch(r"-?\d+", x) else x for x in line.split()] for line in text.splitlines()]
        return [line for line in lines if line[0] in kinds or (not kinds and line[0] != "get_last_error")]

    def kinds(self):
        return [line[0] for line in self.log()]

    def query(self, name):
        info = Info(ctypes.sizeof(Info))
        index = 0
        while self.core.custom_kernel_backend_query(index, ctypes.byref(info)) == OK:
            if info.name.decode() == name:
                return info.available, info.detail.decode()
            index += 1
        raise AssertionError(name)


@pytest.fixture
def fake(built, tmp_path, monkeypatch):
    for name in ("HOPPER", "BLACKWELL"):
        for what in ("CONFIG", "DEPENDENT_LAUNCH"):
            monkeypatch.delenv(f"NVFP4_{name}_{what}", raising=False)
    monkeypatch.delenv("NVFP4_BACKEND", raising=False)
    return Fake(built, tmp_path)


# --- devices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "name"),
    [(90, HOPPER), (100, BLACKWELL), (80, None), (89, None), (91, None), (101, None), (120, None)],
)
def test_each_backend_runs_on_its_own_chips(fake, capability, name):
    fake.devices([(capability, 77)])
    for backend, needed in ((HOPPER, "9.0"), (BLACKWELL, "10.0( or 10.3)?")):
        available, detail = fake.query(backend)
        told = rf"CUDA device 0, compute capability {capability // 10}\.{capability % 10}, 77 SMs"
        assert available == (backend == name)
        assert re.fullmatch(told if backend == name else rf"{told}; it needs {needed}", detail), detail
        status, message = fake.call(backend, device=0)
        assert status == (OK if backend == name else UNAVAILABLE), message
        if backend != name:
            assert message.endswith(f"cannot run here: {detail}")


@BACKENDS
def test_the_query_finds_the_first_of_several_devices_that_will_do(fake, name):
    capability, sms = CHIPS[name]
    fake.devices([(80, 1), (capability, sms), (capability, 5)])
    assert fake.query(name) == (
        1,
        f"CUDA device 1, compute capability {capability // 10}.{capability % 10}, {sms} SMs",
    )
    fake.devices([(80, 1), (70, 2)])
    available, detail = fake.query(name)
    assert not available
    assert detail.startswith("CUDA device 1, compute capability 7.0, 2 SMs; it needs ")


@BACKENDS
def test_a_machine_without_devices_or_driver_is_told(fake, name):
    fake.devices([])
    assert fake.query(name) == (0, "no CUDA device (no error)")
    status, message = fake.call(name, device=0)
    assert status == UNAVAILABLE
    assert message.endswith("cannot run here: CUDA device 0: it broke")
    fake.devices([CHIPS[name]])
    fake.fail("cudaGetDeviceCount")
    fake.core.fake_clear_log()
    assert fake.query(name) == (0, "no CUDA device (it broke)")
    assert ["get_last_error", BROKEN] in fake.log("get_last_error"), "a later call is not blamed for it"


@BACKENDS
@pytest.mark.parametrize("successes", [0, 1, 2])
def test_a_device_that_cannot_be_asked_is_unavailable(fake, name, successes):
    fake.devices([CHIPS[name]])
    fake.fail("cudaDeviceGetAttribute", successes=successes)
    status, message = fake.call(name, device=0)
    assert status == UNAVAILABLE
    assert fake.log() == [["failed", "cudaDeviceGetAttribute"]] * 2 or successes
    fake.fail("cudaDeviceGetAttribute", successes=successes)
    assert fake.query(name)[0] == 0
    assert "CUDA device 0" in message


def test_the_device_decides_without_a_name(fake):
    for device, kernel in ((0, "hopper"), (1, "blackwell")):
        args = Args(ctypes.sizeof(Args), 0, device, BLOCKED, 300, 500, 320, 3, **ADDRESS)
        fake.core.fake_clear_log()
        assert fake.core.custom_kernel(ctypes.byref(args)) == OK
        dequantizes = any(line[2:5] == [300, 1, 3] for line in fake.log("launch"))
        assert dequantizes == (kernel == "hopper"), "Hopper dequantizes A first"
    fake.devices([(80, 1)])
    args = Args(ctypes.sizeof(Args), 0, 0, BLOCKED, 300, 500, 320, 3, **ADDRESS)
    assert fake.core.custom_kernel(ctypes.byref(args)) == UNAVAILABLE
    assert (
        fake.core.custom_kernel_message()
        .decode()
        .endswith("can run on CUDA device 0: CUDA device 0, compute capability 8.0, 1 SMs; it needs 9.0")
    )


@BACKENDS
def test_the_callers_current_device_is_left_or_made_current_again(fake, name):
    fake.devices([CHIPS[name]] * 3)
    fake.number("current").value = 2
    assert fake.call(name, device=2)[0] == OK
    assert fake.log("set_device") == []
    assert fake.call(name, device=1)[0] == OK
    log = fake.log()
    assert log[0] == ["set_device", 1] and log[-1] == ["set_device", 2]
    assert fake.log("set_device") == [["set_device", 1], ["set_device", 2]]
    fake.fail("cudaLaunchKernelExC")
    assert fake.call(name, device=0)[0] == DEVICE
    assert fake.log("set_device") == [["set_device", 0], ["set_device", 2]]
    assert fake.number("current").value == 2


@BACKENDS
def test_sixty_four_devices_can_be_told_apart(fake, name):
    fake.devices([CHIPS[name]] * 70)
    assert fake.call(name, device=63)[0] == OK
    status, message = fake.call(name, device=64)
    assert status == UNSUPPORTED
    assert message == "device is 64; expected at most 63"
    assert fake.log() == []


@BACKENDS
@LAYOUTS
def test_each_device_has_its_own_pool_and_its_own_permission_for_shared_memory(fake, name, layout):
    fake.devices([CHIPS[name]] * 3)
    for device in (0, 2, 0, 1, 2):
        first = device not in getattr(fake, "met", set())
        fake.met = {*getattr(fake, "met", ()), device}
        assert fake.call(name, device=device, layout=layout)[0] == OK
        needs_scratch = name == HOPPER or layout == ROWS
        keep_all = 2**64 - 1
        pool = [["pool_create", 1, 0, 1, device], ["pool_set", 1000 + device, 1, keep_all]]
        assert fake.log("pool_create", "pool_set") == (pool if first and needs_scratch else [])
        assert [line[2] for line in fake.log("malloc")] == ([1000 + device] if needs_scratch else [])
        assert len(fake.log("allow")) == ((7 if name == BLACKWELL else 1) if first else 0)


# --- launches -----------------------------------------------------------------------------------------


def template_numbers(kernel, count):
    """The numbers that a kernel's tile is made from."""
    return tuple(map(int, re.findall(r"Li(\d+)E", kernel)))[:count]


def tiles_of(tiles, name):
    return {tile: tuple(row.values()) for tile, row in tiles.table[name]["tiles"].items()}


def with_tile(monkeypatch, name, tile):
    monkeypatch.setenv(f"NVFP4_{name.upper()}_CONFIG", tile)


def permute_launch(tiles_k, most_rows, slices):
    """Two times 128 threads, a row of a tile each, and two tiles along K a thread."""
    return [up(tiles_k, 4), up(most_rows, 128), slices, 256, 1, 1, 0, QUEUE, 1, 1, 1, 1, 1]


PROBLEMS = [(300, 500, 1088, 3), (1, 1, 1024, 1), (128, 192, 960, 2), (257, 97, 2048, 1)]


@LAYOUTS
@pytest.mark.parametrize("shape", PROBLEMS)
def test_hoppers_launches_are_laid_out_by_the_tile(fake, tiles, monkeypatch, layout, shape):
    m, n, k, batches = shape
    for tile, (warpgroups, m_blocks, tile_m, stages, splits) in tiles_of(tiles, HOPPER).items():
        with_tile(monkeypatch, HOPPER, tile)
        assert fake.call(HOPPER, None, *shape, layout)[0] == OK
        tile_n = 32 * m_blocks * warpgroups
        padded_k = round_up(k, 128)
        permutes = layout == ROWS or padded_k != k
        a_bytes = round_up(batches * m * padded_k * 2, 256)
        scale_bytes = round_up(batches * round_up(n, 128) * padded_k // 16, 256) if permutes else 0
        assert fake.log("malloc") == [["malloc", a_bytes + 2 * scale_bytes, 1000, QUEUE]]
        units = padded_k // 128 * 16
        threads = min(units, 1024)
        launches = [[m, up(units, threads), batches, threads, 1, 1, 0, QUEUE, 1, 1, 1, 1, 1]]
        if permutes:
            launches += [permute_launch(padded_k // 64, n, 2 * batches)]
        grid = [up(n, tile_n) * splits, up(m, tile_m), batches]
        resources = tiles.table[HOPPER]["resources"][tile]
        gemm = [*grid, resources["threads"], 1, 1, resources["shared_bytes"], QUEUE, splits, 1, 1, 1, 1]
        assert [line[2:] for line in fake.log("launch")] == [*launches, gemm]
        kernels = [line[1] for line in fake.log("launch")]
        assert template_numbers(kernels[-1], 5) == (warpgroups, m_blocks, tile_m, stages, splits)
        assert len(set(kernels)) == len(kernels)
        maps = [line[1:] for line in fake.log("encode")]
        b_map = [n, batches, k // 2, k // 2 * n, 64, tile_n, 1, 1, 1, 1, 0, 0, 3, 0]
        assert maps == [
            [6, 3, SCRATCH, padded_k, m, batches, 2 * padded_k, 2 * padded_k * m, 64, tile_m, 1, 1, 1, 1, 0, 3, 3, 0],
            *([0, 3, ADDRESS[b], k // 2, *b_map] for b in ("b1", "b2")),
        ]
        assert fake.kinds()[-1] == "free" and fake.log("free") == [["free", 1, QUEUE]]
        assert fake.kinds().index("launch") > fake.kinds().index("encode"), "what can fail comes before"


@LAYOUTS
@pytest.mark.parametrize("shape", PROBLEMS)
def test_blackwells_launches_are_laid_out_by_the_tile(fake, tiles, monkeypatch, layout, shape):
    m, n, k, batches = shape
    for tile, (columns, stages, ctas, tail, splits) in tiles_of(tiles, BLACKWELL).items():
        with_tile(monkeypatch, BLACKWELL, tile)
        status, message = fake.call(BLACKWELL, None, *shape, layout)
        assert status == OK, message
        tiles_k = k // 64
        sfa_tiles, sfb_tiles = up(m, 128) * tiles_k, up(n, 128) * tiles_k
        sfa_bytes, sfb_bytes = (round_up(batches * count * 512, 256) for count in (sfa_tiles, sfb_tiles))
        launches, places = [], [ADDRESS[name] for name in ("sfa", "sfb1", "sfb2")]
        if layout == ROWS:
            places = [SCRATCH, SCRATCH + sfa_bytes, SCRATCH + sfa_bytes + sfb_bytes]
            assert fake.log("malloc") == [["malloc", sfa_bytes + 2 * sfb_bytes, 1001, QUEUE]]
            assert fake.log("free") == [["free", 1, QUEUE]] and fake.kinds()[-2] == "free"
            launches = [permute_launch(tiles_k, max(m, n), 3 * batches)]
        else:
            assert fake.log("malloc", "free", "pool_create") == []
        resources = tiles.table[BLACKWELL]["resources"][tile]
        grid = [round_up(up(m, 128), ctas) * splits, up(n, columns), batches]
        gemm = [*grid, resources["threads"], 1, 1, resources["shared_bytes"], QUEUE, ctas * splits, 1, 1, 1, 1]
        assert [line[2:] for line in fake.log("launch")] == [*launches, gemm]
        assert template_numbers(fake.log("launch")[-1][1], 5) == (columns, stages, ctas, tail, splits)
        maps = [line[1:] for line in fake.log("encode")]
        fp4 = [("a", m, 128), ("b1", n, columns // ctas), ("b2", n, columns // ctas)]
        scales = list(zip(places, (sfa_tiles, sfb_tiles, sfb_tiles), strict=True))
        half_k = k // 2
        assert maps == [
            *(
                [0, 3, ADDRESS[x], half_k, rows, batches, half_k, half_k * rows, 128, box, 1, 1, 1, 1, 0, 3, 3, 0]
                for x, rows, box in fp4
            ),
            *(
                [1, 3, place, 256, count, batches, 512, 512 * count, 256, 4, 1, 1, 1, 1, 0, 0, 3, 0]
                for place, count in scales
            ),
        ]


@BACKENDS
@pytest.mark.parametrize(("value", "on"), [(None, 1), ("", 1), ("1", 1), ("0", 0), ("00", 1), ("no", 1)])
def test_dependent_launch_is_on_unless_the_environment_says_0(fake, monkeypatch, name, value, on):
    if value is not None:
        monkeypatch.setenv(f"NVFP4_{name.upper()}_DEPENDENT_LAUNCH", value)
    assert fake.call(name, layout=ROWS)[0] == OK
    launches = fake.log("launch")
    assert len(launches) == (3 if name == HOPPER else 2)
    assert {line[-2] for line in launches} == {on}


@BACKENDS
def test_a_large_permutation_keeps_to_the_grids_limits(fake, name):
    count, rows = (2, "n") if name == HOPPER else (3, "m")  # a size of the output that may be so large
    for size, batches, grid in (
        (128 * 65535, 1, [16, 65535, count]),
        (128 * 65535 + 1, 1, [16, 65535, count]),
        (1, 65535 // count, [16, 1, 65535 // count * count]),
        (1, 65535 // count + 1, [16, 1, 65535]),
    ):
        shape = {"m": 1, "n": 1, "k": 4096, "batches": batches} | {rows: size}
        assert fake.call(name, **shape, layout=ROWS)[0] == OK
        assert fake.log("launch")[-2][2:5] == grid


@BACKENDS
def test_the_entry_point_is_asked_for_once(fake, name):
    assert fake.call(name)[0] == OK
    assert fake.log("entry_point") == [["entry_point", "cuTensorMapEncodeTiled", 12000, 0]]
    assert fake.call(name)[0] == OK
    assert fake.log("entry_point", "allow", "clusters") == []


@BACKENDS
def test_a_driver_without_tensor_maps_is_told(fake, name):
    fake.number("no_entry").value = 1
    assert fake.call(name) == (UNAVAILABLE, "the CUDA driver has no cuTensorMapEncodeTiled")
    assert fake.log("launch") == []


# --- tile selection -----------------------------------------------------------------------------------


@BACKENDS
def test_a_tile_is_selected_for_the_devices_sms(fake, tiles, name):
    for sms in (CHIPS[name][1], 16):
        fake.devices([(CHIPS[name][0], sms)] * 2)
        for cluster in CLUSTERS:
            fake.clusters[cluster] = -1  # Blackwell: the driver does not say, so SMs are counted
        device = 0 if sms == 16 else 1
        for shape in ((256, 4096, 7168, 1), (512, 3072, 7168, 1), (100, 100, 64, 1), (4096, 4096, 512, 2)):
            assert fake.call(name, device, *shape)[0] == OK
            selected = tiles.selected(name, sms, *shape)
            row = tiles_of(tiles, name)[selected["tile"]]
            launched = fake.log("launch")[-1]
            assert template_numbers(launched[1], 5) == row
            assert launched[2] * launched[3] * launched[4] == selected["ctas"]


def test_the_driver_tells_how_many_clusters_run_at_once_and_is_asked_once_a_device(fake, tiles):
    shape = (256, 3072, 32768, 1)
    fake.devices([CHIPS[BLACKWELL]] * 2)
    table = tiles_of(tiles, BLACKWELL)
    resources = tiles.table[BLACKWELL]["resources"]
    assert fake.call(BLACKWELL, 0, *shape)[0] == OK
    asked = fake.log("clusters")
    assert [line[2:] for line in asked] == [
        [ctas * splits, ctas * splits, resources[tile]["threads"], resources[tile]["shared_bytes"], -1]
        for tile, (_, _, ctas, _, splits) in table.items()
    ]
    assert [template_numbers(line[1], 5) for line in asked] == list(table.values())
    assert template_numbers(fake.log("launch")[-1][1], 5) == table["m256n192k4"]
    assert fake.call(BLACKWELL, 0, *shape)[0] == OK
    assert fake.log("clusters") == []
    # Another device, where no cluster of eight runs.
    fake.clusters[8] = 0
    assert fake.call(BLACKWELL, 1, *shape)[0] == OK
    assert len(fake.log("clusters")) == len(table)
    assert template_numbers(fake.log("launch")[-1][1], 5) != table["m256n192k4"]
    # None of eight runs is an answer, too: it is not asked for again.
    assert fake.call(BLACKWELL, 1, *shape)[0] == OK
    assert fake.log("clusters") == []


@BACKENDS
@pytest.mark.parametrize("value", ["x", "M256N64", "f64x128", "m256n6", "m256n64k", "m128n64 ", "x" * 99])
def test_a_tile_nobody_knows_is_told_with_the_names_there_are(fake, tiles, monkeypatch, name, value):
    with_tile(monkeypatch, name, value)
    status, message = fake.call(name)
    assert status == ARGUMENT
    names = ", ".join(tiles_of(tiles, name))
    assert message == f"NVFP4_{name.upper()}_CONFIG is '{value[:64]}'; expected one of {names}"
    assert fake.log("launch", "malloc") == []


@BACKENDS
def test_an_empty_name_of_a_tile_means_the_librarys_choice(fake, monkeypatch, name):
    assert fake.call(name)[0] == OK
    chosen = fake.log("launch")[-1]
    with_tile(monkeypatch, name, "")
    assert fake.call(name)[0] == OK
    assert fake.log("launch")[-1] == chosen


@pytest.mark.parametrize("tile", ["m256n128k2", "m256n192k2", "m256n192k4"])
def test_a_k_too_short_for_its_splits_is_told(fake, tiles, monkeypatch, tile):
    splits = tiles_of(tiles, BLACKWELL)[tile][4]
    with_tile(monkeypatch, BLACKWELL, tile)
    least = (splits - 1) * 256 + 64
    assert fake.call(BLACKWELL, k=least)[0] == OK
    status, message = fake.call(BLACKWELL, k=least - 64)
    assert status == UNSUPPORTED
    assert message == (
        f"k is {least - 64}; expected at least {least} on the blackwell backend with tile {tile}, "
        f"which splits K among {splits}"
    )
    assert fake.log("launch") == []


# --- limits -------------------------------------------------------------------------------------------

MOST = (2**31 - 1) // 8
LARGE = (1, 1, 64, 1)


@pytest.mark.parametrize(
    ("name", "tile", "what", "most", "extents"),
    [
        (HOPPER, "m64n96", "m", 65535 * 64, lambda x: (x, 1, 64, 1)),
        (HOPPER, "m256n64", "m", 65535 * 256, lambda x: (x, 1, 64, 1)),
        (HOPPER, "m128n64", "n", MOST, lambda x: (1, x, 64, 1)),
        (HOPPER, "m128n64", "k", MOST // 64 * 64, lambda x: (1, 1, x, 1)),
        (HOPPER, "m128n64", "l", 65535, lambda x: (1, 1, 64, x)),
        (BLACKWELL, "m128n64", "m", MOST, lambda x: (x, 1, 64, 1)),
        (BLACKWELL, "m128n64", "n", 65535 * 64, lambda x: (1, x, 64, 1)),
        (BLACKWELL, "m256n192k2", "n", 65535 * 192, lambda x: (1, x, 512, 1)),
        (BLACKWELL, "m128n64", "k", MOST // 64 * 64, lambda x: (1, 1, x, 1)),
        (BLACKWELL, "m128n64", "l", 65535, lambda x: (1, 1, 64, x)),
    ],
)
def test_each_extent_has_its_limit(fake, monkeypatch, name, tile, what, most, extents):
    with_tile(monkeypatch, name, tile)
    status, message = fake.call(name, None, *extents(most))
    assert status == OK, message
    beyond = most + (64 if what == "k" else 1)
    status, message = fake.call(name, None, *extents(beyond))
    told = MOST if what == "k" else most
    assert (status, message) == (
        UNSUPPORTED,
        f"{what} is {beyond}; expected at most {told} on the {name} backend with tile {tile}",
    )
    assert fake.log("launch", "malloc") == []


@pytest.mark.parametrize("scales", ["sfa", "sfb1"])
def test_blackwells_scale_tiles_have_their_limit(fake, monkeypatch, scales):
    with_tile(monkeypatch, BLACKWELL, "m128n128")
    rows = "m" if scales == "sfa" else "n"

    def call(tiles_k):
        extents = {"m": 1, "n": 1, "k": 64 * tiles_k, "batches": 1, rows: 128 * 16384}
        return fake.call(BLACKWELL, **extents)

    assert call(MOST // 16384)[0] == OK
    status, message = call(MOST // 16384 + 1)
    assert status == UNSUPPORTED
    assert message == (
        f"the number of scale tiles of {scales}, ceil({rows} / 128) * k / 64, is {(MOST // 16384 + 1) * 16384}; "
        f"expected at most {MOST} on the blackwell backend with tile m128n128"
    )


def test_hoppers_a_in_fp16_has_its_limit(fake, monkeypatch):
    """2^59 bytes of fp4 are 2^62 of fp16 with K padded."""
    with_tile(monkeypatch, HOPPER, "m256n64")
    k, batches = 1 << 26, 1 << 11
    places = {**dict.fromkeys(INPUTS, 16), "a": 1 << 63, "c": 1 << 61}
    for m, status in (((1 << 23) - 1, OK), (1 << 23, UNSUPPORTED)):
        args = Args(ctypes.sizeof(Args), NUMBERS[HOPPER], 0, ROWS, m, 1, k, batches, **places)
        assert fake.core.custom_kernel(ctypes.byref(args)) == status, fake.core.custom_kernel_message()
    assert fake.core.custom_kernel_message().decode() == (
        f"the size of a in bytes is {2**59}; expected at most {2**59 - 1} on the hopper backend with tile m256n64"
    )


# --- errors -------------------------------------------------------------------------------------------

FUNCTIONS = {
    "cudaGetDevice": {HOPPER, BLACKWELL},
    "cudaSetDevice": {HOPPER, BLACKWELL},
    "cudaMemPoolCreate": {HOPPER, BLACKWELL},
    "cudaMemPoolSetAttribute": {HOPPER, BLACKWELL},
    "cudaMallocFromPoolAsync": {HOPPER, BLACKWELL},
    "cudaGetDriverEntryPointByVersion": {HOPPER, BLACKWELL},
    "cudaFuncSetAttribute": {HOPPER, BLACKWELL},
    "cudaLaunchKernelExC": {HOPPER, BLACKWELL},
    "cudaFreeAsync": {HOPPER, BLACKWELL},
}


@BACKENDS
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("error", "status"), [(BROKEN, DEVICE), (MEMORY_ALLOCATION, OUT_OF_MEMORY)])
def test_a_failed_call_of_the_runtime_ends_the_call_and_leaves_nothing_behind(fake, name, function, error, status):
    fake.number("current").value = 1 if name == HOPPER else 0
    device = 1 - fake.number("current").value
    fake.fail(function, error)
    got, message = fake.call(name, device=device, layout=ROWS)
    assert got == status
    said = "cudaErrorMemoryAllocation (out of memory)" if error == MEMORY_ALLOCATION else "cudaErrorFake (it broke)"
    assert re.fullmatch(rf"{function}\(.*\): {re.escape(said)}", message), message
    assert ["get_last_error", error] in fake.log("get_last_error"), "the error is taken from the runtime"
    assert len(fake.log("malloc")) == len(fake.log("free")), "scratch memory is given back"
    assert fake.number("current").value == 1 - device, "the caller's device is current"
    if function not in ("cudaLaunchKernelExC", "cudaFreeAsync"):
        assert fake.log("launch") == []
    fake.fail()
    assert fake.call(name, device=device, layout=ROWS)[0] == OK, "the next call goes well"
    assert fake.log("launch")


@BACKENDS
def test_of_two_failures_the_first_is_told(fake, name):
    fake.fail("cudaLaunchKernelExC", MEMORY_ALLOCATION)
    status, message = fake.call(name, layout=ROWS)
    assert (status, message.split("(")[0]) == (OUT_OF_MEMORY, "cudaLaunchKernelExC")
    fake.number("current").value = 1 if name == HOPPER else 0
    fake.fail("cudaSetDevice", successes=1)
    status, message = fake.call(name, layout=ROWS)
    assert status == DEVICE
    assert message.startswith("cudaSetDevice"), "the caller's device could not be made current again"


@BACKENDS
@pytest.mark.parametrize("successes", [1, 2])
def test_a_later_launch_that_fails_ends_the_call(fake, name, successes):
    fake.fail("cudaLaunchKernelExC", successes=successes)
    launches = 3 if name == HOPPER else 2
    status, _ = fake.call(name, layout=ROWS)
    assert status == (DEVICE if successes < launches else OK)
    assert len(fake.log("launch")) == min(successes, launches)
    assert len(fake.log("free")) == 1


@BACKENDS
def test_a_refused_tensor_map_is_told_by_its_tensor(fake, name):
    tensors = ("a", "b1", "b2") if name == HOPPER else ("a", "b1", "b2", "sfa", "sfb1", "sfb2")
    for successes, tensor in enumerate(tensors):
        fake.fail("cuTensorMapEncodeTiled", successes=successes)
        assert fake.call(name) == (DEVICE, f"cuTensorMapEncodeTiled of {tensor} failed with CUresult 1")
        assert fake.log("launch") == []
    fake.fail()
    assert fake.call(name)[0] == OK


def test_a_failed_question_for_sms_ends_the_call(fake):
    fake.fail("cudaDeviceGetAttribute", successes=3)  # those of the choice of a backend
    status, message = fake.call(HOPPER)
    assert status == DEVICE
    assert message.startswith("cudaDeviceGetAttribute(")
