"""The Blackwell backend's kernels on the simulator, each as a module of its own, and their mutants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from reference.reference import check_against_oracle, generate_input
from simulator.python.frame import Sim, aligned
from simulator.python.toolchain import ROOT, built

UINT8, UINT16 = 0, 1  # CUtensorMapDataType
SWIZZLE_128B = 3  # CUtensorMapSwizzle
TILE_M, STAGE_BYTES_K, THREADS, SHARED = 128, 128, 320, 232448
M = 130  # rows of A: two CTAs


class Config(NamedTuple):
    """A row of blackwell_config.h."""

    tile_n: int
    stages: int
    ctas: int
    tail: int
    split_k: int
    stored: int = 0

    @property
    def stacked(self) -> bool:
        """True if one MMA takes both products."""
        return self.tail == 0 and self.split_k == 1

    @property
    def b_box_rows(self) -> int:
        """Rows of B1 or B2 that a copy brings."""
        return self.tile_n if self.stacked else self.tile_n // self.ctas // (2 if self.stored else 1)

    @property
    def n(self) -> int:
        """Columns: enough for a tile at each half of a scale tile, where tile_n is not a multiple of 128."""
        return max(128, 2 * self.tile_n if self.tile_n % 128 else 0)

    @property
    def k(self) -> int:
        """Each share of K goes round the ring and one stage on (less with many shares), and ends within a stage."""
        return 256 * self.split_k * (2 if self.split_k > 2 else self.stages + 1) + 64


CONFIGS = {
    name: Config(*map(int, row.split(",")))
    for name, row in re.findall(
        r"^ +X\((\w+), ([\d, ]+)\)", (ROOT / "submission/blackwell/blackwell_config.h").read_text(), re.M
    )
}


@cache
def kernels_ptx() -> str:
    """The PTX of all kernels of the backend, as the simulated library holds it."""
    return built("submission/blackwell/blackwell_kernels.ptx").read_text()


def module_of(symbol: str) -> str:
    """The kernel whose mangled name starts so, as a module of its own."""
    text = kernels_ptx()
    head = text[: text.index(".entry")].rsplit("\n", 1)[0]
    files = "\n".join(re.findall(r"^\s*\.file\s.*$", text, re.M))
    return f"{head}\n{re.search(rf'.entry {symbol}.*?^}}', text, re.M | re.S)[0]}\n{files}\n"


def template_arguments(config: tuple[int, ...]) -> str:
    """A configuration's template arguments in a mangled name."""
    return "".join(f"Li{value}E" for value in config)


@cache
def entries() -> dict[str, str]:
    """Each configuration's kernel as a module of its own."""
    symbol = "_ZN9blackwell16dual_gemm_kernelINS_4tileI"
    return {name: module_of(symbol + template_arguments(config) + "E") for name, config in CONFIGS.items()}


@cache
def inputs(n: int, k: int) -> tuple[torch.Tensor, ...]:
    return generate_input(m=M, n=n, k=k, l=1, seed=3, device="cpu")


class Kernel(Sim):
    """Launches a configuration's kernel; `output` is C."""

    def __init__(self, name: str, text: str, mode: str = "eager", seed: int = 1, n: int = 0, k: int = 0) -> None:
        super().__init__(text, mode, seed)
        self.config = CONFIGS[name]
        self.n, self.k = n or self.config.n, k or self.config.k
        self.entry = re.search(r"\.entry (\w+)", text)[1]
        as_bytes = lambda tensor: tensor.view(torch.uint8).numpy()  # noqa: E731
        a, b1, b2, _, _, _, sfa, sfb1, sfb2, _ = inputs(self.n, self.k)
        rows = [self.buffer(as_bytes(codes)[:, :, 0]) for codes in (a, b1, b2)]
        tiles = [
            self.buffer(as_bytes(scales.permute(5, 2, 4, 0, 1, 3).contiguous()).reshape(-1, 512))
            for scales in (sfa, sfb1, sfb2)
        ]
        self.output = self.register(aligned((M, self.n), np.uint16))
        self.maps = b"".join(
            self.map_of(array, UINT8, box, SWIZZLE_128B)
            for array, box in zip(rows, (TILE_M, *[self.config.b_box_rows] * 2), strict=True)
        ) + b"".join(self.map_of(array.view(np.uint16), UINT16, 4, 0) for array in tiles)

    def map_of(self, array: np.ndarray, kind: int, rows: int, swizzle: int) -> bytes:
        width = array.shape[1] if kind == UINT16 else STAGE_BYTES_K
        sizes, pitch = [array.shape[1], array.shape[0], 1], array.strides[0]
        return self.tensor_map(array, kind, [width, rows, 1], swizzle, sizes, [pitch, pitch * array.shape[0]])

    def run(self, dependent: int = 0) -> int:
        params = self.maps + self.output.ctypes.data.to_bytes(8, "little")
        params += np.array([M, self.n, self.k // 64, 0], np.int32).tobytes()
        shape = {
            "grid": (-(-M // TILE_M) * self.config.split_k, -(-self.n // self.config.tile_n), 1),
            "cluster": (self.config.ctas * self.config.split_k, 1, 1),
        }
        return self.launch(self.entry, params, **shape, block=THREADS, shared=SHARED, dependent=dependent)


def is_right(kernel: Kernel) -> bool:
    output = torch.from_numpy(kernel.output.copy()).view(torch.float16)[:, :, None]
    return check_against_oracle(inputs(kernel.n, kernel.k), output)[0]


# Pattern and replacement of one occurrence at a time; the verdict, and kinds of which one must be reported.
WAITS = {"read-before-completion", "overwrite-while-read", "double-write", "mbarrier-arrivals", "accumulator-early"}
WAITS |= {"tensor-memory-race", "unpipelined-copy", "missed-phase"}
MUTANTS = {
    "no fence after mbarrier.init": (r"fence\.mbarrier_init[^;]*;", "", "review", {"mbarrier-init-fence"}),
    "no wait for a barrier": (r"mbarrier\.try_wait[^;]* p, [^;]*;", "setp.eq.u32 p, 0, 0;", "error", WAITS),
    "no fence after a wait": (r"tcgen05\.fence::after_thread_sync;", "", "review", {"missing-tcgen05-fence"}),
    "no fence at the end": (r"tcgen05\.fence::before_thread_sync;", "", "review", {"missing-tcgen05-fence"}),
    "no commit": (r"tcgen05\.commit[^;]*;", "", "error", {"deadlock", "divergent-aligned"}),
    "commits to one CTA": (
        r"(tcgen05\.commit[^;]*)\.multicast::cluster\.b64 (\[%r\d+\]), %rs\d+;",
        r"\1.b64 \2;",
        "error",
        {"deadlock"},
    ),
    "too few bytes": (r"(mbarrier\.arrive\.expect_tx[^;]*, )[%\w]+;", r"\g<1>16;", "error", {"deadlock", "tx-count"}),
    "the second CTA signals itself": (
        r"mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), %r\d+;",
        r"mov.u32 \1, \2;",
        "error",
        {"deadlock"},
    ),
    "no wait for a load": (r"tcgen05\.wait::ld[^;]*;", "", "review", {"tcgen05-register", "tensor-memory-freed"}),
    "no cluster barrier": (
        r"barrier\.cluster\.arrive[^;]*;|barrier\.cluster\.wait[^;]*;",
        "",
        "error",
        {"cluster-barrier", "mbarrier-init-race", "tensor-memory-freed", "tensor-operand", "tensor-memory"}
        | {"read-after-write-race", "overwrite-while-read", "deadlock", "no-mbarrier"},
    ),
    "no barrier for TMEM's address": (r"bar\.sync[^;]*;", "", "error", {"read-after-write-race"}),
    "no dealloc": (r"tcgen05\.dealloc[^;]*;", "", "error", {"tensor-memory-leak"}),
    "no copy of scale factors": (r"tcgen05\.cp[^;]*;", "", "error", {"tensor-memory-uninitialised"}),
    "no store of scale factors": (r"tcgen05\.st[^;]*;", "", "error", {"tensor-memory-uninitialised"}),
    "no wait for a store": (r"tcgen05\.wait::st[^;]*;", "", "error", {"tensor-memory-race"}),
    "no proxy fence": (r"fence\.proxy\.async[^;]*;", "", "error", {"missing-proxy-fence"}),
    "no griddepcontrol.wait": (r"griddepcontrol\.wait;", "", "error", {"missing-griddepcontrol-wait"}),
}
OF_A_PAIR = {"commits to one CTA", "the second CTA signals itself"}  # only kernels of a pair have these
OF_STACKED = {"no proxy fence"}  # only kernels that stack the scale factors of B1 and B2
OF_STORED = {
    "no store of scale factors",
    "no wait for a store",
}  # only kernels whose warps store them; others copy them
OF_COPIED = {"no copy of scale factors"}
# For each kernel, the places of a pattern that are tried; code that two kernels share is tried in one.
# Left out, since PTX asks for no fence there: the first pair of fences, around the barrier after tcgen05.alloc (which
# is not asynchronous), and the fence of a thread that waits for its own commits (scales_read).  Left out too, since
# they guard nothing: the load warp's two waits of the cluster's barrier and the epilogue's last.
EVERY, BUT_FIRST = slice(None), slice(1, None)
OF_PAIRS = (0, 1, 2, 4, 6, 7, 8, 9, 10)
PLACES = {
    "m256n64": dict.fromkeys(set(MUTANTS) - OF_STORED, EVERY)
    | dict.fromkeys(("no fence after a wait", "no fence at the end"), BUT_FIRST)
    # The steps of a whole stage are alike; the first copies are of a last stage that K does not fill, where factors of
    # the lap before are left.
    | {"no copy of scale factors": slice(2, None, 7), "no cluster barrier": OF_PAIRS},
    "m128n64": dict.fromkeys(
        ("no wait for a barrier", "no commit", "too few bytes", "no barrier for TMEM's address"), EVERY
    )
    | {"no cluster barrier": (0, 1, 2, 4, 5, 6)},
    "m256n192k2": {
        "no wait for a barrier": EVERY,
        "no commit": EVERY,
        "no cluster barrier": (1, 3, 5, 7, 11, 13, 15, 17, 19, 21),  # waits
        "no fence after a wait": slice(7, None),
    },
    "m256n128s": dict.fromkeys((*OF_STORED, "no wait for a barrier", "no commit"), EVERY)
    | dict.fromkeys(("no fence after a wait", "no fence at the end"), BUT_FIRST),
}


def chosen(found: list[re.Match[str]], places: slice | tuple[int, ...]) -> list[re.Match[str]]:
    """Some of the places that a pattern finds."""
    return found[places] if isinstance(places, slice) else [found[i] for i in places]


def mutants_at(
    places: dict[str, slice | tuple[int, ...]], absent: set[str], text: str
) -> Iterator[tuple[str, str, str, set[str]]]:
    """Yields each mutant: its alteration, its text, the verdict, and kinds of findings of which one must be reported.

    absent: alterations whose pattern this kernel does not have.
    """
    for what, (pattern, replacement, *expected) in MUTANTS.items():
        found = list(re.finditer(pattern, text))
        assert bool(found) == (what not in absent), what
        for match in chosen(found, places.get(what, ())):
            yield what, text[: match.start()] + match.expand(replacement) + text[match.end() :], *expected


def mutants(name: str, text: str) -> Iterator[tuple[str, str, str, set[str]]]:
    config = CONFIGS[name]
    absent = (set() if config.ctas == 2 else OF_A_PAIR) | (set() if config.stacked else OF_STACKED)
    absent |= OF_COPIED if config.stored else OF_STORED
    yield from mutants_at(PLACES[name], absent, text)


def mutant_k(name: str) -> int:
    """K of a mutant's launch: as usual; where K is split, one share goes round the ring and the other does not."""
    return 256 * 8 + 64 if CONFIGS[name].split_k > 1 else CONFIGS[name].k
