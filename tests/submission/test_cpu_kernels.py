"""The CPU backend's results: every instruction set against exact sums and a float64 oracle."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess

import numpy as np
import pytest

from tests.submission.cpu_kit import (
    BLOCKED,
    CODE,
    E4M3,
    GROUP,
    INTEGER_ISAS,
    LAYOUTS,
    NAN_SCALE,
    ONE,
    ROWS,
    Backend,
    Problem,
    assert_same,
    check,
    random_problem,
    runs_here,
)

EDGES = (1, 3, 17, 40, 72, 127, 128, 129, 200)


# --- exact sums ---------------------------------------------------------------------------------------


def constant(shape, value):
    return np.full(shape, value, dtype=np.uint8)


@LAYOUTS
def test_each_output_takes_its_own_row_column_and_position_in_k(backend, layout):
    m, n, k = 130, 150, 192
    # Each row of A is 1 at one position and 0 elsewhere, so an output is one element of B1 times one of B2.
    # From 20 on, silu(x) is x in fp32; the products have at most 11 bits.
    hot = np.arange(m) * 7 % k
    a = constant((1, m, k), 0)
    a[0, np.arange(m), hot] = CODE[1]
    rng = np.random.default_rng(1)
    b1 = rng.choice([CODE[x] for x in (4, 6)], (1, n, k))
    b2 = rng.integers(0, 16, (1, n, k))
    scales1 = rng.choice([byte for byte in range(0x7F) if 8 <= E4M3[byte] < 16], (1, n, k // GROUP))
    scales2 = rng.choice([byte for byte in range(0x7F) if E4M3[byte] in (0.5, 1, 2, 4, 8)], (1, n, k // GROUP))
    problem = Problem([a, b1, b2], [constant((1, m, k // GROUP), ONE), scales1, scales2])
    _, gates, ups = problem.values()
    assert gates.min() >= 20
    want = gates[0][:, hot].T * ups[0][:, hot].T
    assert_same(backend(problem, layout)[0].astype(np.float64), want)


@LAYOUTS
@pytest.mark.parametrize("k", [64, 448, 1024])
def test_sums_of_exact_addends_are_exact_in_any_order(backend, layout, k):
    rng = np.random.default_rng(k)
    m, n, batches = 37, 50, 2
    nonnegative = rng.integers(0, 8, (batches, m, k)), rng.integers(0, 8, (batches, n, k))
    codes = [*nonnegative, rng.integers(0, 16, (batches, n, k))]
    # Scales from 1/4 to 2 and codes in halves: products are multiples of 1/64, sums below 2^24 of these.
    powers = [byte for byte in range(0x7F) if E4M3[byte] in (0.25, 0.5, 1, 2)]
    scales = [rng.choice(powers, (*x.shape[:2], k // GROUP)) for x in codes]
    problem = Problem(codes, scales)
    gate, up = (x.astype(np.float32) for x in problem.sums())
    assert gate.min() >= 20, "silu would not be the identity"
    with np.errstate(over="ignore"):
        want = (gate * up).astype(np.float16)  # rounded to fp32, then to fp16, as in the backend
    assert np.isfinite(want).any()
    assert_same(backend(problem, layout), want)


def test_every_value_times_every_scale_reaches_the_output(backend):
    """All 16 codes times all 254 scale bytes, subnormals and negative signs included, as gates of any size."""
    k, codes, scales = 64, np.arange(16), np.setdiff1d(np.arange(256), (0x7F, 0xFF))
    pairs = np.array(list(itertools.product(codes, scales)))
    n = len(pairs)
    row_scales = [0x01, 0x07, 0x88, ONE, 0x7E]
    a = constant((1, len(row_scales), k), 0)
    a[0, np.arange(len(row_scales)), [0, 17, 34, 51, 63]] = CODE[1]
    b1 = np.repeat(pairs[:, 0], k).reshape(1, n, k)
    scale1 = np.repeat(pairs[:, 1], k // GROUP).reshape(1, n, -1)
    # up = 2688 brings the smallest silu into fp16's range; up = 1/2 keeps the largest within it.
    for code, scale in ((CODE[6], 0x7E), (CODE[0.5], ONE)):
        problem = Problem(
            [a, b1, constant((1, n, k), code)],
            [
                np.repeat(np.array(row_scales), k // GROUP).reshape(1, len(row_scales), -1),
                scale1,
                constant((1, n, k // GROUP), scale),
            ],
        )
        check(problem, backend(problem))


# --- random inputs ------------------------------------------------------------------------------------


@LAYOUTS
@pytest.mark.parametrize("k", [64, 128, 192, 448])
def test_edge_sizes(backend, layout, k):
    # Scales around 1/8 make gates around 1, where silu bends.
    whole = random_problem(max(EDGES), max(EDGES), k, seed=k, scale_bytes=np.arange(0x18, 0x28))
    reference = backend(whole, layout)
    check(whole, reference)
    for m, n in itertools.product(EDGES, EDGES):
        assert_same(backend(whole.top(m, n), layout), reference[:, :m, :n])


@LAYOUTS
def test_batches_are_independent(backend, layout):
    problem = random_problem(40, 72, 192, batches=3, seed=3, scale_bytes=np.arange(0x18, 0x28))
    got = backend(problem, layout)
    check(problem, got)
    for batch in range(3):
        one = slice(batch, batch + 1)
        alone = Problem([x[one] for x in problem.codes], [x[one] for x in problem.scales])
        assert_same(backend(alone, layout), got[one])


@LAYOUTS
def test_full_data_overflows_to_infinity_and_stays_accurate(backend, layout):
    problem = random_problem(67, 90, 448, seed=5)
    got = backend(problem, layout)
    assert np.isinf(got).any()
    assert np.isfinite(got).any()
    check(problem, got)


def test_long_sums_stay_accurate(backend):
    problem = random_problem(24, 40, 7168, seed=7, scale_bytes=np.arange(0x10, 0x20))
    check(problem, backend(problem))


def test_instruction_sets_and_layouts_agree_bit_for_bit(library_path, monkeypatch):
    problem = random_problem(70, 100, 1088, batches=2, seed=11, scale_bytes=np.arange(0x00, 0x38))
    results = {}
    for isa in INTEGER_ISAS:
        if not runs_here(library_path, isa):
            backend = Backend(library_path, isa, monkeypatch)
            results |= {(isa, layout): backend(problem, layout).view(np.uint16) for layout in (BLOCKED, ROWS)}
    for which, got in results.items():
        assert (got == results["portable", ROWS]).all(), which


# --- special values -----------------------------------------------------------------------------------


@LAYOUTS
@pytest.mark.parametrize("byte", [0x7F, 0xFF])
@pytest.mark.parametrize("operand", [0, 1, 2], ids=["sfa", "sfb1", "sfb2"])
def test_a_nan_scale_makes_exactly_its_own_outputs_nan(backend, layout, byte, operand):
    problem = random_problem(37, 45, 192, batches=2, seed=13, scale_bytes=np.arange(0x18, 0x28))
    clean = backend(problem, layout)
    for batch, row, group in ((0, 0, 0), (0, 5, 7), (1, 36, 11)):
        want = clean.copy()
        want[(batch, row) if operand == 0 else (batch, slice(None), row)] = np.nan
        scales = [x.copy() for x in problem.scales]
        scales[operand][batch, row, group] = byte
        codes = [x.copy() for x in problem.codes]
        assert_same(backend(Problem(codes, scales), layout), want)


@pytest.mark.parametrize("operand", [0, 1, 2], ids=["sfa", "sfb1", "sfb2"])
def test_a_nan_scale_of_zeros_gives_nan(backend, operand):
    m, n, k = 6, 20, 128
    shapes = [(1, m), (1, n), (1, n)]
    scales = [constant((*shape, k // GROUP), 0) for shape in shapes]
    scales[operand][0, 3, 2] = NAN_SCALE
    want = np.zeros((1, m, n), dtype=np.float16)
    want[(0, 3) if operand == 0 else (0, slice(None), 3)] = np.nan
    assert_same(backend(Problem([constant((*shape, k), 0) for shape in shapes], scales)), want)


def test_the_sign_bit_of_a_scale_is_ignored(backend):
    problem = random_problem(33, 35, 128, seed=17, scale_bytes=np.arange(0x00, 0x38))
    negative = Problem(problem.codes, [x | 0x80 for x in problem.scales])
    assert_same(backend(negative), backend(problem))


def test_gates_far_below_zero_give_zero(backend):
    m, n, k = 5, 21, 256
    codes = [constant((1, rows, k), code) for rows, code in ((m, CODE[6]), (n, CODE[6] | 8), (n, CODE[6]))]
    scales = [constant((1, rows, k // GROUP), 0x7E) for rows in (m, n, n)]
    problem = Problem(codes, scales)
    assert problem.sums()[0].max() < -1e9
    assert_same(backend(problem), np.zeros((1, m, n), dtype=np.float16))


@pytest.fixture(scope="module")
def silu_library(root, tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("silu") / "silu.so"
    flags = ["-std=c11", "-O3", "-ffp-contract=off", "-fPIC", "-shared"]
    sources = ("tests/submission/c/silu_table.c", "submission/core/checks.c", "submission/core/message.c")
    subprocess.run([compiler, *flags, "-o", path, *(root / source for source in sources)], check=True)
    library = ctypes.CDLL(str(path))

    def call(function, *inputs, last=()):
        inputs = [np.ascontiguousarray(x, dtype=np.float32) for x in inputs]
        y = np.empty_like(inputs[0])
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*inputs, y)]
        getattr(library, function)(*pointers, ctypes.c_long(y.size), *last)
        return y

    return call


def test_exp_is_within_two_ulp(silu_library):
    x = np.unique(np.concatenate((np.linspace(-87, 88.7, 400_001), np.geomspace(1e-30, 80, 100_001))))
    x = x.astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    ulp = np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert (abs(silu_library("exp_many", x) - exact) / ulp).max() <= 2


@pytest.mark.parametrize(("function", "cubic"), [(1, None), (2, 0.044715)])
def test_silu_and_gelu_err_by_less_than_the_header_says(silu_library, function, cubic):
    """tanh(u) = 1 - 2 / (1 + exp(2 u)), so that gelu is x * sigmoid(2 u)."""
    sizes = np.geomspace(1e-20, 90, 200_001)
    x = np.concatenate((sizes, -sizes)).astype(np.float32)
    wide = x.astype(np.float64)
    slope = wide if cubic is None else 2 * np.sqrt(2 / np.pi) * (wide + cubic * wide**3)
    with np.errstate(over="ignore"):
        exact = wide / (1 + np.exp(-slope))
    found = silu_library("activated_many", x, last=(ctypes.c_int32(function),))
    assert (abs(found - exact) <= abs(wide) * 2.0**-23).all()


def test_silu_of_special_values_is_torchs(silu_library):
    torch = pytest.importorskip("torch")
    specials = np.array([0, -0.0, 1, -1, 88.8, -88.8, 104, -104, 3e38, -3e38, np.inf, -np.inf, np.nan, 1e-40])
    gate, up = (x.ravel().astype(np.float32) for x in np.meshgrid(specials, specials))
    with np.errstate(all="ignore"):
        got = silu_library("silu_many", gate, up)
    want = (torch.nn.functional.silu(torch.from_numpy(gate)) * torch.from_numpy(up)).numpy()
    np.testing.assert_allclose(got, want, rtol=2**-21, atol=2**-126)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()
