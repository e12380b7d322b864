"""The card's checks on the CPU: each passes a right kernel and fails one with its kind of fault."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
import torch

from scripts.bench import check_gpu
from scripts.bench.groups import group_checks as check_groups
from submission.submission import custom_kernel


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setattr(check_gpu, "device", "cpu")
    monkeypatch.setattr(check_groups, "device", "cpu")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


def faulty(change, when=lambda number, data: True):
    """The kernel, whose output `change` spoils in the calls that `when` names by number and inputs."""
    number = 0

    def kernel(data, **options):
        nonlocal number
        output = custom_kernel(data, **options)
        if when(number, data):
            change(output)
        number += 1
        return output

    return kernel


def one_wrong(output):
    output.view(torch.int16).flatten()[-1] ^= 1


def one_left(output):
    output.flatten()[-1] = float("nan")


def verdicts(monkeypatch, check, kernel=custom_kernel):
    """(what, whether it holds) of a check, with this kernel."""
    monkeypatch.setattr(check_gpu, "custom_kernel", kernel)
    return [(what, ok) for what, ok, _ in check()]


def failed(found):
    return [what for what, ok in found if not ok]


@pytest.fixture
def shrunk(monkeypatch):
    """Benchmark shapes with an eighth of their sizes."""
    real = check_gpu.poisoned

    def poisoned(m, n, k, batches, **options):
        if m * n * k > 1 << 25:
            m, n, k = m // 8, n // 32, max(k // 32 // 64 * 64, 64)
        return real(m, n, k, batches, **options)

    monkeypatch.setattr(check_gpu, "poisoned", poisoned)


def test_inputs_are_poisoned_so_that_an_unwritten_element_shows():
    data = check_gpu.poisoned(3, 5, 64, 2, seed=4, full=True)
    assert data[-1].shape == (3, 5, 2) and bool(data[-1].isnan().all())
    again, other = (check_gpu.poisoned(3, 5, 64, 2, seed=seed, full=True) for seed in (4, 5))
    assert torch.equal(data[0].view(torch.uint8), again[0].view(torch.uint8))
    assert not torch.equal(data[0].view(torch.uint8), other[0].view(torch.uint8))


def test_bad_input_is_bad_in_one_place(monkeypatch):
    given = []

    def refuse(data):
        given.append(data)
        raise ValueError("no CUDA")

    monkeypatch.setattr(check_gpu, "custom_kernel", refuse)
    with pytest.raises(ValueError, match="no CUDA"):  # instead of a TypeError
        list(check_gpu.errors())
    whole = given[0]
    assert [len(data) for data in given] == [10] * 3
    assert [sum(one is not other for one, other in zip(whole[:9], data[:9], strict=True)) for data in given[1:]] == [
        0,
        1,
    ]
    assert given[2][0].dtype == torch.uint8 and given[2][9] is not None


def test_equal_bits_tell_nans_and_signed_zeros_apart():
    x = torch.tensor([0.0, float("nan")]).half()
    assert check_gpu.same_bits(x, x.clone())
    assert not check_gpu.same_bits(x, torch.tensor([-0.0, float("nan")]).half())


REFUSED = "k is 512; expected at least 832 on the blackwell backend with tile m256n192k4, which splits K among 4"


def test_a_shape_that_a_configuration_refuses_is_no_verdict(monkeypatch):
    def refuse(message):
        def kernel(data):
            raise RuntimeError(message)

        return kernel

    data = check_gpu.poisoned(3, 5, 64, 1)
    monkeypatch.setattr(check_gpu, "custom_kernel", refuse(REFUSED))
    assert list(check_gpu.judged("a", data, lambda data, output: (True, ""))) == []
    monkeypatch.setattr(check_gpu, "custom_kernel", refuse("launch failed"))
    with pytest.raises(RuntimeError, match="launch failed"):
        list(check_gpu.judged("a", data, lambda data, output: (True, "")))
    monkeypatch.setattr(check_gpu, "custom_kernel", custom_kernel)
    seen = []
    found = list(check_gpu.judged("a", data, lambda *given: seen.append(given) or (False, "why")))
    assert found == [("a", False, "why")] and seen[0][0] is data and seen[0][1] is data[-1]


def test_the_leaderboards_cases(monkeypatch, shrunk):
    found = verdicts(monkeypatch, check_gpu.leaderboard)
    assert failed(found) == []
    assert [what.split()[0] for what, _ in found] == ["test"] * 10 + ["benchmark"] * 4
    assert found[10][0] == "benchmark 256 4096 7168"
    third = faulty(one_left, lambda number, data: number == 2)
    assert failed(verdicts(monkeypatch, check_gpu.leaderboard, third)) == [found[2][0]]


def test_every_code_on_the_benchmarks(monkeypatch, shrunk):
    found = verdicts(monkeypatch, check_gpu.full_benchmarks)
    shapes = ("256 4096 7168", "512 4096 7168", "256 3072 4096", "512 3072 7168")
    assert [what for what, _ in found] == [f"full {shape}" for shape in shapes]
    assert failed(found) == []
    assert failed(verdicts(monkeypatch, check_gpu.full_benchmarks, faulty(lambda output: output.zero_()))) != []


def test_edges_in_both_layouts(monkeypatch):
    def same_as_now(data, output):  # the oracle takes its time
        return check_gpu.same_bits(output, custom_kernel((*data[:-1], output.clone()))), ""

    monkeypatch.setattr(check_gpu, "EDGES", (1, 40))
    monkeypatch.setattr(check_gpu, "check_against_oracle", same_as_now)
    drawn, poisoned = [], check_gpu.poisoned
    with monkeypatch.context() as patch:
        patch.setattr(check_gpu, "poisoned", lambda *shape, **of: drawn.append((shape, of)) or poisoned(*shape, **of))
        found = verdicts(monkeypatch, check_gpu.edges)
    assert [of for _, of in drawn] == [{"seed": i, "full": full} for i in range(12) for full in (False, True)]
    shapes = [f"({m}, {n}, 1088, 1)" for m in (1, 40) for n in (1, 40)]
    shapes += [f"(129, 200, {k}, 3)" for k in (64, 128, 192, 448, 1024, 7168)] + ["(1, 1, 64, 1)", "(300, 7, 320, 2)"]
    assert [what for what, _ in found] == [
        f"{layout} {shape} full={full}" for shape in shapes for full in (False, True) for layout in ("blocked", "rows")
    ]
    assert failed(found) == []
    rows = faulty(one_wrong, lambda number, data: len(data) == 7 and number == 3)
    assert failed(verdicts(monkeypatch, check_gpu.edges, rows)) == ["rows (1, 1, 1088, 1) full=True"]
    first = faulty(one_left, lambda number, data: number == 0)
    assert "blocked (1, 1, 1088, 1) full=False" in failed(verdicts(monkeypatch, check_gpu.edges, first))


def test_nans_stay_in_their_row_or_column(monkeypatch):
    found = verdicts(monkeypatch, check_gpu.nan_scales)
    assert found == [(f"NaN {byte} in tensor {tensor}", True) for tensor in (6, 7, 8) for byte in ("0x7f", "0xff")]
    nowhere = faulty(lambda output: output.nan_to_num_(0.0))
    elsewhere = faulty(lambda output: output.__setitem__((150, 150), float("nan")))
    missing = faulty(lambda output: output.__setitem__((5, 70), 0.0))
    for kernel, count in ((nowhere, 6), (elsewhere, 6), (missing, 4)):
        assert len(failed(verdicts(monkeypatch, check_gpu.nan_scales, kernel))) == count


def test_rings_in_both_layouts(monkeypatch):
    shapes = ("(129, 200, 3072, 1)", "(40, 72, 2112, 2)")
    shapes += ("(8, 72, 2112, 2)", "(16, 200, 3072, 1)", "(32, 136, 3136, 1)")
    names = [f"{layout}{shape}" for shape in shapes for layout in ("", "rows ")]
    assert verdicts(monkeypatch, check_gpu.rings) == [(name, True) for name in names]
    for number, name in enumerate(names):
        spoilt = faulty(lambda output: output.zero_(), lambda call, data, number=number: call == number)
        assert failed(verdicts(monkeypatch, check_gpu.rings, spoilt)) == [name]


def test_repeats_give_the_same_bits(monkeypatch, shrunk):
    monkeypatch.setattr(check_gpu, "REPEATS", 5)
    real = torch.zeros
    monkeypatch.setattr(check_gpu.torch, "zeros", lambda *shape, **options: real(*shape, **options | {"device": "cpu"}))
    assert verdicts(monkeypatch, check_gpu.repeats) == [(f"5 repeats of {m} rows", True) for m in (256, 8, 16, 32)]
    for spoilt in (1, 5):
        kernel = faulty(one_wrong, lambda number, data, spoilt=spoilt: number == spoilt)
        assert verdicts(monkeypatch, check_gpu.repeats, kernel) == [
            (f"5 repeats of {m} rows", m != 256) for m in (256, 8, 16, 32)
        ]
    stale = faulty(lambda output: None, lambda number, data: True)
    monkeypatch.setattr(
        check_gpu, "custom_kernel", lambda data: stale(data) if not data[-1].isnan().any() else data[-1]
    )
    assert [ok for _, ok, _ in check_gpu.repeats()] == [True] * 4  # nothing is written, which is the same every time


def test_back_to_back_calls_are_those_of_the_call_alone(monkeypatch, shrunk):
    names = [f"back to back {number}" for number in range(30)]
    assert verdicts(monkeypatch, check_gpu.back_to_back) == [(name, True) for name in names]
    last = faulty(one_wrong, lambda number, data: number == 30 + 150 - 1)
    assert failed(verdicts(monkeypatch, check_gpu.back_to_back, last)) == [names[29]]
    early = faulty(one_wrong, lambda number, data: number == 30)  # the next rounds overwrite it
    assert failed(verdicts(monkeypatch, check_gpu.back_to_back, early)) == []


def test_inputs_made_just_before_are_read(monkeypatch, shrunk):
    assert verdicts(monkeypatch, check_gpu.produced_inputs) == [
        (f"inputs of {m} rows made just before", True) for m in (256, 8)
    ]
    kept = {}

    def stale(data):
        """Reads what the tensors held when it first saw them."""
        first = kept.setdefault(data[0].data_ptr(), tuple(tensor.clone() for tensor in data[:9]))
        return custom_kernel((*first, data[9]))

    assert verdicts(monkeypatch, check_gpu.produced_inputs, stale) == [
        (f"inputs of {m} rows made just before", True) for m in (256, 8)
    ]
    spoilt = faulty(one_wrong, lambda number, data: number == 20)
    assert verdicts(monkeypatch, check_gpu.produced_inputs, spoilt) == [
        (f"inputs of {m} rows made just before", m != 256) for m in (256, 8)
    ]


def test_a_run_counts_what_passed_and_keeps_what_failed(monkeypatch, capsys):
    def check():
        yield "a", True, ""
        yield "b", False, "is off"
        raise ValueError("gone")

    for name in check_gpu.CONFIG_VARIABLES:
        monkeypatch.setenv(name, "before")
    assert check_gpu.run_check("m1", "some", False, {"some": check}) == {
        "config": "m1", "check": "some", "passed": 1, "failures": ["b is off", "ValueError: gone"],
    }  # fmt: skip
    assert (os.environ["NVFP4_HOPPER_CONFIG"], os.environ["NVFP4_BLACKWELL_CONFIG"]) == ("m1", "m1")
    said = capsys.readouterr().out.splitlines()
    assert said == ["  FAIL m1 some: b is off", "  FAIL m1 some: ValueError: gone", "m1 some: 1 passed"]
    assert check_gpu.run_check("", "some", True, {"some": check})["config"] == "auto"
    assert "  pass auto some: a " in capsys.readouterr().out.splitlines()


def test_every_configuration_is_of_the_gpu_backend_that_runs(monkeypatch):
    def backend(name, available):
        return SimpleNamespace(name=name, available=available)

    monkeypatch.delenv("NVFP4_BACKEND", raising=False)
    table = {
        name: {"tiles": {f"{name}1": {}, f"{name}2": {}}, "grouped_tiles": {f"{name} of groups": {}}}
        for name in ("hopper", "blackwell")
    }
    monkeypatch.setattr(check_gpu.tile_table, "printed", lambda: table)
    listed = [backend("blackwell", False), backend("hopper", True), backend("cpu", True)]
    monkeypatch.setattr(check_gpu, "backends", lambda: listed)
    assert check_gpu.every_config("dual_gemm") == ["hopper1", "hopper2"]
    listed.insert(0, listed.pop())  # the CPU first
    assert check_gpu.every_config("dual_gemm") == ["hopper1", "hopper2"]
    monkeypatch.setenv("NVFP4_BACKEND", "blackwell")
    assert check_gpu.every_config("dual_gemm") == ["blackwell1", "blackwell2"]
    assert check_gpu.every_config("group_gemm") == ["blackwell of groups"]
