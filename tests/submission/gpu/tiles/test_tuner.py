"""The choice of tiles by time: what is timed and kept, and when nothing is; on a fake device whose fast kernel a test
names.
"""

from __future__ import annotations

import ctypes
import re

import pytest

from tests.submission.cpu_kit import DEVICE, OK
from tests.submission.gpu.fake_gpu import BLACKWELL, HOPPER, MEMORY_ALLOCATION, QUEUE, template_numbers
from tests.submission.gpu.test_grouped_launches import call as call_grouped

KINDS = pytest.mark.parametrize("kind", ["dual hopper", "dual blackwell", "groups blackwell"])


@pytest.fixture(autouse=True)
def tuned(monkeypatch):
    monkeypatch.setenv("NVFP4_TUNE", "1")
    monkeypatch.delenv("NVFP4_GROUPED_CONFIG", raising=False)


@pytest.fixture
def call(fake, kind):
    """Calls the kind's problem; returns the multiplying kernels' names, those of a call that times among them."""
    problem, name = kind.split()

    def run(m=256, n=4096, k=7168, queue=0):
        if problem == "dual":
            status, message = fake.call(name, m=m, n=n, k=k, batches=1, queue=queue)
        else:
            status, message = call_grouped(fake, name, [(m, n, k), (m // 2, n, k)], queue=queue)
        assert status == OK, message
        return [line[1] for line in fake.log("launch") if "gemm_kernel" in line[1]]

    return run


def make_fast(fake, kernel):
    tile = re.search(r"(?:Li\d+E)+", kernel)[0]
    (ctypes.c_char * 64).in_dll(fake.core, "fake_fast").value = tile.encode()


@KINDS
def test_the_fastest_kernel_is_found_and_kept_for_its_shape(fake, call):
    """The fast kernel is the last of those timed, so the model ranks others above it."""
    timed = call()
    order = list(dict.fromkeys(timed))
    assert 2 <= len(order) <= 4 and timed[-1] == order[0], "no kernel is faster: the model's choice stays"
    make_fast(fake, order[-1])
    assert set(call(m=255)) <= set(order) and call(m=255) == [order[-1]]
    assert not fake.log("event") and not fake.log("allocate")
    assert call() == [order[0]], "the first shape's choice stays"


@KINDS
def test_each_shape_has_a_choice_of_its_own(fake, call):
    call()
    for other in ({"m": 255}, {"n": 4080}, {"k": 7104}):
        call(**other)
        assert fake.log("event"), other
    call()
    assert not fake.log("event")


@pytest.mark.parametrize("kind", ["dual blackwell"])
def test_a_tile_that_must_be_slower_is_not_timed(fake, call):
    """With thousands of tiles, those of half as many columns would copy all of A twice as often."""
    timed = set(call(m=8192, n=8192, k=4096))
    assert len(timed) >= 2 and {template_numbers(kernel, 1) for kernel in timed} == {(128,)}


@KINDS
def test_all_work_is_on_the_calls_queue_and_all_memory_is_given_back(fake, call):
    call()
    assert {line[-1] for line in fake.log("event", "set")} == {0}
    assert len(fake.log("allocate")) == len(fake.log("give_back")) == 1


@KINDS
def test_rows_that_promise_bits_are_not_timed(fake, call):
    assert len(call(m=32)) == 1 and not fake.log("event")


@KINDS
@pytest.mark.parametrize("value", [None, "", "0"])
def test_nothing_is_timed_unless_asked(fake, call, monkeypatch, value):
    if value is None:
        monkeypatch.delenv("NVFP4_TUNE")
    else:
        monkeypatch.setenv("NVFP4_TUNE", value)
    assert len(call()) == 1 and not fake.log("event")


@KINDS
def test_a_queue_that_may_be_captured_gets_the_models_choice_and_a_later_call_is_timed(fake, call):
    (chosen,) = call(queue=QUEUE)
    assert not fake.log("event")
    assert call()[0] == chosen and fake.log("event")


@KINDS
@pytest.mark.parametrize("failing", ["cudaMalloc", "cudaEventRecord"])
def test_a_call_that_cannot_be_timed_is_answered(fake, call, failing):
    fake.fail(failing, MEMORY_ALLOCATION)
    assert call()
    assert len(fake.log("give_back")) == 1


@pytest.mark.parametrize("kind", ["dual hopper"])
def test_a_launch_that_fails_is_reported(fake, call):
    fake.fail("cudaLaunchKernelExC")
    assert fake.call(HOPPER, m=256, queue=0)[0] == DEVICE
    fake.fail()
    assert call()


@pytest.mark.parametrize("kind", ["dual blackwell"])
def test_a_named_tile_is_not_timed(fake, call, monkeypatch, tiles):
    monkeypatch.setenv("NVFP4_BLACKWELL_CONFIG", next(iter(tiles.table[BLACKWELL]["tiles"])))
    assert len(call()) == 1 and not fake.log("event")
