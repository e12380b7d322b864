"""The ctypes shim's edge cases: strides, shape, dtype and device of each tensor; the argument struct; the library."""

from __future__ import annotations

import shutil
import struct
import subprocess

import pytest
import torch

from reference.reference import check_against_oracle, generate_input
from scripts.common.toolchain import BUILD
from submission import library_file, shim
from submission import submission as dual
from submission.submission import custom_kernel
from tests.submission.cpu_kit import assert_says

NAMES_OF_TEN = ("a", "b1", "b2", "sfa", "sfb1", "sfb2", "sfa_permuted", "sfb1_permuted", "sfb2_permuted", "c")
NAMES_OF_SEVEN = (*NAMES_OF_TEN[:6], "c")
READ_OF_TEN = (0, 1, 2, 6, 7, 8, 9)
FORMS = pytest.mark.parametrize("form", [10, 7])
# Every dimension of every tensor is 2 or more in the first, of two batches; the others have one batch.
SHAPES = [(140, 150, 128, 2), (2, 2, 128, 2), (40, 24, 192, 1)]


def problem(m, n, k, batches, form=10):
    data = generate_input(m, n, k, batches, seed=5, full=True, device="cpu")
    return data if form == 10 else (*data[:6], data[9])


def read(form):
    """Index and name of each tensor that a form's call reads or writes."""
    return [(i, NAMES_OF_TEN[i]) for i in READ_OF_TEN] if form == 10 else list(enumerate(NAMES_OF_SEVEN))


def replaced(data, index, tensor):
    return (*data[:index], tensor, *data[index + 1 :])


def restrided(tensor, strides):
    """The same values at other strides."""
    room = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    raw = torch.zeros(room, dtype=torch.int16 if tensor.element_size() == 2 else torch.uint8)
    other = torch.as_strided(raw, tensor.shape, strides)
    other.copy_(tensor.view(raw.dtype))
    return torch.as_strided(raw.view(tensor.dtype), tensor.shape, strides)


def assert_right(data):
    output = custom_kernel(data)
    assert output is data[-1]
    ok, message = check_against_oracle(data, output)
    assert ok, message


# --- right tensors take the fast path, wrong ones do not -----------------------------------------------


@pytest.fixture
def no_slow_path(monkeypatch):
    def refuse(*_):
        raise AssertionError("right tensors were examined one by one")

    monkeypatch.setattr(dual, "_check", refuse)
    monkeypatch.setattr(dual, "_unpack", refuse)


@FORMS
@pytest.mark.parametrize("shape", [*SHAPES, (1, 1, 64, 1), (128, 256, 64, 1), (129, 1, 64, 3)])
def test_right_tensors_are_compared_once_and_not_examined_one_by_one(no_slow_path, shape, form):
    data = problem(*shape, form)
    assert_right(data)
    assert_right(list(data))


@FORMS
@pytest.mark.parametrize("shape", SHAPES)
def test_a_wrong_stride_in_any_dimension_of_any_tensor_is_named(shape, form):
    data = problem(*shape, form)
    for index, name in read(form):
        tensor = data[index]
        for dimension, size in enumerate(tensor.shape):
            if size == 1:
                continue
            strides = list(tensor.stride())
            strides[dimension] += 1 if strides[dimension] == 1 else 16
            wrong = replaced(data, index, restrided(tensor, strides))
            with pytest.raises(ValueError) as error:
                custom_kernel(wrong)
            # The expected stride of a dimension of size 1 is the layout's, not the tensor's.
            expected = () if 1 in tensor.shape else (tuple(tensor.stride()),)
            assert_says(str(error.value), name, "strides", tuple(strides), *expected)


@FORMS
def test_dimensions_of_size_one_may_have_any_stride_in_every_tensor(form):
    data = problem(1, 1, 64, 1, form)
    for index, _ in read(form):
        tensor = data[index]
        strides = [stride if size > 1 else 777 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
        assert_right(replaced(data, index, torch.as_strided(tensor, tensor.shape, strides)))


@FORMS
@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_that_is_wrong_in_one_dimension_is_named(shape, form):
    data = problem(*shape, form)
    m, n, k, batches = shape
    for index, name in read(form):
        if name == "c":
            continue  # the other shapes are compared with c's
        tensor = data[index]
        for dimension in range(tensor.ndim):
            if name == "a" and dimension == 1:
                continue  # the other tensors' K is compared with a's
            larger = list(tensor.shape)
            larger[dimension] += 1
            wrong = torch.zeros(larger, dtype=torch.uint8).view(tensor.dtype)
            with pytest.raises(ValueError) as error:
                custom_kernel(replaced(data, index, wrong))
            sizes = f"M = {m}, N = {n}, K = {k}, L = {batches}"
            assert_says(str(error.value), name, "shape", tuple(larger), tuple(tensor.shape), sizes)


def test_a_wrong_k_or_output_size_names_the_first_tensor_that_differs():
    data, other = problem(40, 24, 128, 2), problem(41, 24, 128, 2)
    with pytest.raises(
        ValueError, match=r"^b1 has shape \(24, 64, 2\); expected \(24, 96, 2\) for M = 40, N = 24, K = 192"
    ):
        custom_kernel(replaced(data, 0, problem(40, 24, 192, 2)[0]))
    with pytest.raises(ValueError, match=r"^a has shape \(40, 64, 2\); expected \(41, 64, 2\) for M = 41"):
        custom_kernel(replaced(data, 9, other[9]))


@FORMS
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_a_wrong_dtype_is_named_in_both_forms_with_one_batch_or_more(shape, form):
    data = problem(*shape, form)
    for index, name in read(form):
        tensor = data[index]
        for dtype in (torch.uint8, torch.int8, torch.float8_e5m2) if name != "c" else (torch.bfloat16, torch.int16):
            with pytest.raises(TypeError) as error:
                custom_kernel(replaced(data, index, tensor.view(dtype)))
            assert_says(str(error.value), name, dtype, tensor.dtype)


def test_a_sparse_tensor_is_refused_by_its_layout():
    data = problem(*SHAPES[2])
    with pytest.raises(TypeError, match=r"^c has layout torch\.sparse_coo; expected torch\.strided"):
        custom_kernel(replaced(data, 9, data[9].zero_().to_sparse()))


@pytest.mark.parametrize("k", [32, 96, 160])
def test_k_between_multiples_of_64_is_refused(k):
    data = problem(8, 8, 192, 1)
    short = data[0][:, : k // 2]
    with pytest.raises(ValueError, match=rf"^a has shape \(8, {k // 2}, 1\), K = {k}; expected a multiple of 64$"):
        custom_kernel(replaced(data, 0, short))


# --- devices ------------------------------------------------------------------------------------------


class Elsewhere(torch.Tensor):
    """A host tensor that claims to be on a CUDA device."""

    @classmethod
    def of(cls, tensor, index):
        made = tensor.as_subclass(cls)
        made.index = index
        return made

    @property
    def device(self):
        return torch.device("cuda", self.index)

    def get_device(self):
        return self.index


class FakeLibrary:
    """Records the argument struct of each call and returns a status."""

    def __init__(self, status=0, message=""):
        self.status, self.message = status, message
        self.calls = []

    def call(self, arguments):
        self.calls.append(struct.unpack("@Iiiiqqqq8Q", arguments))
        return self.status

    def message_of_call(self):
        return self.message


@pytest.fixture
def library(monkeypatch):
    fake = FakeLibrary()
    monkeypatch.setattr(dual, "_call", fake.call)
    monkeypatch.setattr(dual, "message", fake.message_of_call)
    monkeypatch.setattr(dual, "_current_queue", lambda device: 0)  # the device does not exist
    return fake


@FORMS
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_a_tensor_on_another_device_than_c_is_refused(library, shape, form):
    data = tuple(Elsewhere.of(tensor, 1) for tensor in problem(*shape, form))
    for index, name in read(form):
        if name == "c":
            continue
        host = torch.Tensor.as_subclass(data[index], torch.Tensor)
        for other, where in ((Elsewhere.of(host, 0), "cuda:0"), (host, "cpu")):
            with pytest.raises(ValueError) as error:
                custom_kernel(replaced(data, index, other))
            assert_says(str(error.value), name, where, "cuda:1")
    assert library.calls == []


# --- the argument struct ------------------------------------------------------------------------------


@FORMS
@pytest.mark.parametrize("device", [None, 0, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_struct_holds_every_field_in_its_place(library, shape, device, form):
    data = problem(*shape, form)
    if device is not None:
        data = tuple(Elsewhere.of(tensor, device) for tensor in data)
    assert custom_kernel(data, queue=0xABCDE) is data[-1]
    assert custom_kernel(data) is data[-1]
    m, n, k, batches = shape
    pointers = [data[index].data_ptr() for index, _ in read(form)]
    head = (struct.calcsize("@Iiiiqqqq8Q"), 0, -1 if device is None else device, 0 if form == 10 else 1)
    assert library.calls == [(*head, m, n, k, batches, *pointers, queue) for queue in (0xABCDE, 0)]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(1, ValueError), (2, ValueError), (3, RuntimeError), (4, RuntimeError), (5, RuntimeError), (6, RuntimeError)],
)
def test_a_status_becomes_an_exception_with_the_librarys_message(library, status, kind):
    library.status, library.message = status, "what went wrong"
    with pytest.raises(kind) as error:
        custom_kernel(problem(*SHAPES[2]))
    assert type(error.value) is kind
    assert str(error.value) == "what went wrong"


# --- which library ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("simulate", "name"),
    [
        (None, "libcustom_kernel.so"),
        ("", "libcustom_kernel.so"),
        ("0", "libcustom_kernel.so"),
        ("yes", "libcustom_kernel.so"),
        ("1", "libcustom_kernel_sim.so"),
    ],
)
@pytest.mark.parametrize("library", [None, "", "/elsewhere/lib.so"])
def test_the_environment_names_the_library(root, monkeypatch, simulate, name, library):
    for variable, value in (("NVFP4_SIMULATE", simulate), ("NVFP4_LIBRARY", library)):
        if value is None:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, value)
    assert str(library_file.library_path()) == (library or str(BUILD / name))


@pytest.mark.parametrize(
    ("name", "target"), [("libcustom_kernel.so", "build"), ("libcustom_kernel_sim.so", "simulator"), ("x.so", "build")]
)
def test_a_missing_library_is_reported_with_the_command_that_builds_it(tmp_path, name, target):
    with pytest.raises(ImportError) as error:
        shim.load(tmp_path / name)
    assert_says(str(error.value), str(tmp_path / name), f"`make {target}`")


@pytest.fixture(scope="module")
def library_of_version(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("versions")

    def build(version):
        path = folder / f"{version:x}.so"
        source = (
            f"unsigned custom_kernel_version(void) {{ return {version}u; }}"
            "int custom_kernel(const void *args) { return args == 0; }"
            "void custom_kernel_tensor_form(void) {}"
            'const char *custom_kernel_message(void) { return ""; }'
        )
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=source, text=True, check=True)
        return path

    return build


@pytest.mark.parametrize("version", [0x10700, 0x10701, 0x10800, 0x1FFFF])
def test_a_later_library_of_the_same_major_version_is_taken(library_of_version, version):
    assert shim.load(library_of_version(version)).custom_kernel_version() == version


@pytest.mark.parametrize("version", [0, 0xFFFF, 0x10000, 0x106FF, 0x20000, 0x20001, 0x7FFF0000, 0xFFFF0000])
def test_a_library_of_an_older_version_or_a_newer_major_one_is_refused(library_of_version, version):
    path = library_of_version(version)
    with pytest.raises(ImportError) as error:
        shim.load(path)
    assert_says(str(error.value), str(path), f"ABI version {version >> 16}.{version >> 8 & 0xFF};", "1.7")


def test_backends_are_listed_in_the_order_of_the_query(monkeypatch):
    rows = [(b"new", 1, 0, b"no such chip"), (b"old", 0, 0, b"not built"), (b"cpu", 1, 1, b"here")]

    class Querying:
        @staticmethod
        def custom_kernel_backend_query(index, reference):
            info = reference._obj
            assert info.struct_bytes == 32
            if index >= len(rows):
                return 2
            info.name, info.built, info.available, info.detail = rows[index]
            info.backend = 7 - index
            return 0

    monkeypatch.setattr(shim, "library", Querying)
    assert [tuple(backend) for backend in dual.backends()] == [
        ("new", True, False, "no such chip"),
        ("old", False, False, "not built"),
        ("cpu", True, True, "here"),
    ]
    assert dual.backends()[0]._fields == ("name", "built", "available", "detail")
    assert {number: backend.name for number, backend in shim.numbered_backends().items()} == {
        7: "new",
        6: "old",
        5: "cpu",
    }
