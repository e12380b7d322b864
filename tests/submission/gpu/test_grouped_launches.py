"""Launches of a GPU backend for the grouped GEMM: one list of tiles, tensor maps, limits; and how failures end."""

from __future__ import annotations

import ctypes

import pytest

from tests.submission.cpu_kit import ARGUMENT, BLOCKED, OK, ROWS, UNSUPPORTED
from tests.submission.cpu_kit import DEVICE as DEVICE_ERROR
from tests.submission.gpu.fake_gpu import (
    BLACKWELL,
    CHIPS,
    GEFORCE,
    GROUPED_BACKENDS,
    HOPPER,
    NUMBERS,
    QUEUE,
    round_up,
    up,
)
from tests.submission.grouped.grouped_kit import MEMBERS, GroupedArgs, GroupStruct

MAPS = {HOPPER: ("b",), BLACKWELL: ("a", "b", "sfa", "sfb"), GEFORCE: ("a", "b")}
MOST = {HOPPER: 64, BLACKWELL: 48, GEFORCE: 64}  # groups of a launch
# The leaderboard's benchmarks: M of each group, N, K.
BENCHMARKS = [
    ((80, 176, 128, 72, 64, 248, 96, 160), 4096, 7168),
    ((40, 76, 168, 72, 164, 148, 196, 160), 7168, 2048),
    ((192, 320), 3072, 4096),
    ((128, 384), 4096, 1536),
]


@pytest.fixture(autouse=True)
def no_tile(monkeypatch):
    monkeypatch.delenv("NVFP4_GROUPED_CONFIG", raising=False)


def call(fake, name, sizes, layout=BLOCKED, queue=QUEUE):
    """(status, message) of a call; nothing reads its tensors."""
    groups = (GroupStruct * len(sizes))(
        *[GroupStruct(*size, *[(5 * i + j + 1) << 50 for j in range(len(MEMBERS))]) for i, size in enumerate(sizes)]
    )
    args = GroupedArgs(ctypes.sizeof(GroupedArgs), NUMBERS[name], list(CHIPS).index(name), layout, len(sizes))
    args.group_bytes, args.group, args.queue = ctypes.sizeof(GroupStruct), ctypes.addressof(groups), queue
    fake.core.fake_clear_log()
    status = fake.core.custom_kernel_grouped(ctypes.byref(args))
    return status, fake.core.custom_kernel_message().decode()


@GROUPED_BACKENDS
def test_a_benchmark_is_one_launch_for_all_groups_after_hoppers_dequantization(fake, name):
    for rows, n, k in BENCHMARKS:
        assert call(fake, name, [(m, n, k) for m in rows])[0] == OK
        *before, gemm = [line[2:] for line in fake.log("launch")]
        assert len(fake.log("encode")) == len(MAPS[name]) * len(rows)
        assert fake.kinds().index("launch") > fake.kinds().index("encode"), (
            "steps that can fail come before the first launch"
        )
        if name == HOPPER:
            # A CTA a row, four threads for each 128 of K; an SM has room for an equal share of the CTAs.
            shared = min((228 << 10) // up(sum(rows), 132) - 1024, 48 << 10)
            assert before == [[sum(rows), 1, 1, k // 32, 1, 1, shared, QUEUE, 1, 1, 1, 1, 1]]
            a_bytes = sum(round_up(2 * round_up(m, 8) * k, 256) for m in rows)
            # The first benchmark's shortest tiles, 64 rows by 128, share K: a part's sums, and a word a tile.
            shared = 32 * 64 * 128 * 4 + 256 if k == 7168 else 0
            assert fake.log("malloc")[0][1] == a_bytes + shared
        else:
            assert before == [] and fake.log("malloc") == []
        # Tiles that hold every row, at most twice as many rows; except on Hopper an SM's CTA may have several.
        assert sum(rows) * up(n, 128) <= 256 * gemm[0] or (name != HOPPER and gemm[0] == CHIPS[name][1])
        assert gemm[1:3] == [1, 1]


@GROUPED_BACKENDS
@pytest.mark.parametrize("tile", ["least", "most"])
def test_a_tile_that_is_named_cuts_every_group(fake, name, tile, monkeypatch):
    sizes = [(130, 300, 256), (40, 128, 512), (257, 129, 128)]
    named, tile_m, columns, ctas = {
        (HOPPER, "least"): ("m64", 64, 128, 1),
        (HOPPER, "most"): ("m256", 256, 128, 1),
        (BLACKWELL, "least"): ("m128n128", 128, 128, 1),
        (BLACKWELL, "most"): ("m256n256", 256, 256, 2),
        (GEFORCE, "least"): ("m64n64", 64, 64, 1),
        (GEFORCE, "most"): ("m128n128", 128, 128, 1),
    }[name, tile]
    monkeypatch.setenv("NVFP4_GROUPED_CONFIG", named)
    assert call(fake, name, sizes)[0] == OK
    gemm = fake.log("launch")[-1][2:]
    assert gemm[0] == sum(up(m, tile_m) * up(n, columns) * ctas for m, n, _ in sizes) <= CHIPS[name][1]
    assert gemm[8] == ctas
    monkeypatch.setenv("NVFP4_GROUPED_CONFIG", "m1")
    status, message = call(fake, name, sizes)
    assert status == ARGUMENT and message.startswith("NVFP4_GROUPED_CONFIG is 'm1'; expected one of ")


def test_the_shortest_tiles_share_k_only_if_the_list_ends_sooner(fake, monkeypatch):
    def ctas(*sizes):
        assert call(fake, HOPPER, sizes)[0] == OK
        return fake.log("launch")[-1][2]

    assert ctas((248, 128 * 131, 7168), (48, 128, 7168)) == 132, "the last SM has time for the short one"
    rows, n, k = BENCHMARKS[0]
    assert ctas(*[(m, n, k) for m in rows]) == 256 + 32
    monkeypatch.setenv("NVFP4_GROUPED_CONFIG", "m48")  # without a name, one group takes the extended GEMM
    assert ctas((48, 128, 7168)) == 2, "one tile: its halves run at once"
    assert ctas((48, 128, 384)) == 1, "three stages are too short to share"
    assert ctas((48, 128 * 132, 7168)) == 132, "a tile for each SM"
    assert ctas((0, 128, 7168), (48, 128, 7168)) == 2, "a group of no rows has no tiles to share"


def test_one_group_takes_the_extended_gemm_on_hopper_where_it_is_faster_and_no_tile_is_named(fake, monkeypatch):
    def extended(*sizes):
        assert call(fake, HOPPER, sizes)[0] == OK
        return "extended" in fake.log("launch")[-1][1]

    assert extended((128, 4096, 7168)), "its tiles would share K"
    assert extended((128, 7168, 16384)), "it shares K, which the whole tiles are too long for"
    assert not extended((128, 7168, 2048)), "a wave of whole tiles"
    assert not extended((128, 4096, 7168), (8, 64, 64))
    monkeypatch.setenv("NVFP4_HOPPER_CONFIG", "m128n64k2")
    assert extended((128, 4096, 7168))
    monkeypatch.setenv("NVFP4_HOPPER_CONFIG", "m128n96")  # 96 columns do not divide a tile of scale factors
    assert not extended((128, 4096, 7168)) and not extended((128, 7168, 16384))
    monkeypatch.setenv("NVFP4_HOPPER_CONFIG", "")
    monkeypatch.setenv("NVFP4_GROUPED_CONFIG", "m128")
    assert not extended((128, 4096, 7168))


@GROUPED_BACKENDS
def test_more_groups_need_more_launches_and_permuted_scales_one_launch_a_group(fake, name):
    sizes = [(1 + i, 100, 64) for i in range(70)]
    for layout, permutes in ((BLOCKED, 70 if name == HOPPER else 0), (ROWS, 70)):  # half a stage of K on Hopper
        assert call(fake, name, sizes, layout)[0] == OK
        kernels = [line[1] for line in fake.log("launch")]
        assert sum("permute" in kernel for kernel in kernels) == permutes
        assert sum("grouped_gemm" in kernel or "transposed_gemm" in kernel for kernel in kernels) == up(70, MOST[name])
        assert sum("grouped_dequantize" in kernel for kernel in kernels) == (2 if name == HOPPER else 0)
    few = call(fake, name, sizes[:8])[0], fake.log("launch")[-1][1]
    many = call(fake, name, sizes[:9])[0], fake.log("launch")[-1][1]
    assert "few" in few[1] and "many" in many[1]


@GROUPED_BACKENDS
def test_single_rows_run_on_cuda_cores_but_on_blackwell_from_24_mib_of_codes_on(fake, name):
    def kernel(*sizes):
        assert call(fake, name, sizes)[0] == OK
        return fake.log("launch")[-1][1]

    below, rest = (1, 6143, 8192), (1, 1, 8192)  # 24 MiB of e2m1 codes together
    assert "gemv" in kernel(below)
    assert ("gemv" in kernel(below, rest)) == (name != BLACKWELL)
    assert "gemv" not in kernel(below, (2, 1, 8192)), "a group of two rows needs tiles"


@GROUPED_BACKENDS
def test_limits_name_the_group(fake, name):
    most = (2**31 - 1) // 8
    for i, letter in enumerate("mnk"):
        size = [64, 64, 64]
        size[i] = round_up(most + 1, 64)
        status, message = call(fake, name, [(1, 1, 64), tuple(size)])
        assert status == UNSUPPORTED and fake.log("launch", "malloc") == []
        assert message == f"group[1].{letter} is {size[i]}; expected at most {most} on the {name} backend"
    assert call(fake, name, [(most, 1, 64)] * 8)[0] == OK
    status, message = call(fake, name, [(most, 1, 64)] * 9)
    assert status == UNSUPPORTED and message.startswith("the number of rows of all groups is ")
    status, message = call(fake, name, [(128, most, 64)] * 9 + [(2**20, most, 64)] * 2)
    assert status == UNSUPPORTED and message.startswith("the number of CTAs for the tiles of all groups is ")
    status, message = call(fake, name, [(64, most, 128)])
    assert status == OK
    status, message = call(fake, name, [(64, most, 64 * 200)])
    assert status == UNSUPPORTED and message.startswith("group[0].sfb's scale tiles is ")


@GROUPED_BACKENDS
def test_groups_of_a_later_launch_are_checked_before_the_first_one(fake, name):
    most = (2**31 - 1) // 8
    for good, bad, text in (
        ((1, 8, 80), (1, most + 1, 64), f"group[300].n is {most + 1}; expected at most {most}"),
        ((3, 8, 80), (most - 127, most, 64), "the number of CTAs for the tiles of all groups is "),
    ):
        sizes = [good] * 300 + [bad]
        status, message = call(fake, name, sizes)
        assert status == UNSUPPORTED and message.startswith(text), message
        assert fake.log("launch", "malloc") == []
        sizes[300] = good
        assert call(fake, name, sizes)[0] == OK and fake.log("launch")


@GROUPED_BACKENDS
def test_a_failing_runtime_call_frees_everything(fake, name):
    sizes = [(100, 100, 64), (40, 300, 320)]
    launches = 4 if name == HOPPER else 3
    for successes in range(launches):
        fake.fail("cudaLaunchKernelExC", successes=successes)
        assert call(fake, name, sizes, ROWS)[0] == DEVICE_ERROR
        assert len(fake.log("launch")) == successes and len(fake.log("malloc")) == len(fake.log("free")) == 1
    for successes, tensor in enumerate(f"group[{group}].{tensor}" for group in (1, 0) for tensor in MAPS[name]):
        fake.fail("cuTensorMapEncodeTiled", successes=successes)
        assert call(fake, name, sizes) == (DEVICE_ERROR, f"cuTensorMapEncodeTiled of {tensor} failed with CUresult 1")
        assert fake.log("launch") == []
    fake.fail()
    assert call(fake, name, sizes, ROWS)[0] == OK
    assert len(fake.log("launch")) == launches


@GROUPED_BACKENDS
def test_the_callers_device_is_current_after_a_call(fake, name):
    device = list(CHIPS).index(name)
    fake.devices([CHIPS[name]] * (device + 3))
    fake.number("current").value = device + 2
    there_and_back = [["set_device", device], ["set_device", device + 2]]
    assert call(fake, name, [(100, 100, 64)])[0] == OK
    assert fake.log("set_device") == there_and_back
    assert fake.log()[0] == there_and_back[0] and fake.log()[-1] == there_and_back[1]
    fake.fail("cudaLaunchKernelExC")
    assert call(fake, name, [(100, 100, 64)])[0] == DEVICE_ERROR
    assert fake.log("set_device") == there_and_back
