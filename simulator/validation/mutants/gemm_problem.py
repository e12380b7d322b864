"""The tcgen05 kernel of gemm_ptx.py on a problem with known sums, and its mutants."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

from simulator.python.toolchain import built
from simulator.validation.fused_sum import Rule, vectors
from simulator.validation.mutants.gemm_ptx import STEPS

RULE = Rule("e2m1", "e2m1", bits=35, scale="ue4m3", block=16, grouped=True)
CHUNKS = 3


def operand_image(codes: np.ndarray) -> list[np.ndarray]:
    """Chunks of K = 256: rows of 128 bytes with 128-byte swizzle."""
    chunks = []
    for at in range(0, codes.shape[1], 256):
        part = codes[:, at : at + 256]
        line = np.arange(len(part))[:, None] * 128 + np.arange(128)
        image = np.zeros(part.shape[0] * 128, np.uint8)
        image[(line ^ (line >> 7 & 7) << 4).reshape(-1)] = (part[:, 0::2] | part[:, 1::2] << 4).reshape(-1)
        chunks.append(image)
    return chunks


def scale_image(scales: np.ndarray) -> list[np.ndarray]:
    """Chunks of K = 256: for each 128 rows, for each step, 512 bytes in the blocked layout."""
    chunks = []
    for at in range(0, scales.shape[1], 4 * STEPS):
        tiles = []
        for top in range(0, len(scales), 128):
            for step in range(STEPS):
                block = np.zeros((32, 4, 4), np.uint8)
                for r, row in enumerate(scales[top : top + 128, at + 4 * step : at + 4 * step + 4]):
                    block[r % 32, r // 32] = row
                tiles.append(block.reshape(-1))
        chunks.append(np.concatenate(tiles))
    return chunks


class Problem:
    def __init__(self, folder: Path, n: int = 128, pair: bool = False) -> None:
        self.folder, self.n, self.group = folder, n, 2 if pair else 1
        rng = np.random.default_rng(n)
        m, k = 128 * self.group, 256 * CHUNKS
        a, b = rng.integers(0, 16, (m, k)), rng.integers(0, 16, (n, k))
        sfa, sfb = (rng.integers(0, 0x60, (rows, k // 16)).astype(np.uint8) for rows in (m, n))
        want = np.zeros((m, n), np.uint32)
        for i in range(k // 64):
            x, s = slice(64 * i, 64 * i + 64), slice(4 * i, 4 * i + 4)
            want = vectors(RULE, a[:, x], b[:, x], want, sfa[:, s], sfb[:, s])
        self.want = want
        half = n // self.group
        self.sizes = []
        for name, parts in (
            ("a", [operand_image(a[i * 128 : i * 128 + 128]) for i in range(self.group)]),
            ("b", [operand_image(b[i * half : i * half + half]) for i in range(self.group)]),
            ("sfa", [scale_image(sfa[i * 128 : i * 128 + 128]) for i in range(self.group)]),
            ("sfb", [scale_image(sfb)]),
        ):
            data = np.concatenate([np.concatenate(chunks) for chunks in parts]).astype(np.uint8)
            (folder / name).write_bytes(data.tobytes())
            self.sizes.append((name, data.size))

    def run(self, text: str, mode: str = "eager") -> tuple[str, set[tuple[str, str]], int]:
        """The verdict, verdict and kind of each finding, and the number of wrong elements."""
        ptx, out = self.folder / "kernel.ptx", self.folder / "d"
        ptx.write_text(text)
        out.unlink(missing_ok=True)
        buffers = [f"buf:{size}={self.folder / name}" for name, size in self.sizes] + [f"buf:{self.want.size * 4}"]
        done = subprocess.run(
            [built("ptxsim"), ptx, "gemm", "--grid", str(self.group), "--cluster", str(self.group), "--block", "256",
             "--mode", mode, "--json", "--dump", f"4={out}", "--", *buffers],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1, 2, 3), done.stderr
        report = json.loads(done.stdout)
        self.counters = report["counters"]
        d = np.frombuffer(out.read_bytes(), np.uint32).reshape(self.want.shape) if out.exists() else ~self.want
        kinds = {(f["verdict"], f["kind"]) for f in report["findings"]}
        return report["verdict"], kinds, int((d != self.want).sum())


# The line left out -> the verdict, and a finding that must be there.
MUTANTS = {
    "issuer_fence": ("review", "missing-tcgen05-fence"),
    "epilogue_fence": ("review", "missing-tcgen05-fence"),
    "before_end": ("review", "missing-tcgen05-fence"),
    "init_fence": ("review", "mbarrier-init-fence"),
    "wait_ld": ("error", "tensor-memory-freed"),
    "epilogue_done": ("error", "accumulator-early"),
    "issuer_full": ("error", "read-before-completion"),
    "producer_empty": (
        "error",
        {"eager": "double-write", "late": "mbarrier-arrivals", "random:3": "mbarrier-arrivals"},
    ),
    "commit_empty": ("error", "deadlock"),
    "commit_done": ("error", "deadlock"),
    "expect": ("error", "deadlock"),
    "cp_sfa": ("error", "tensor-memory-uninitialised"),
    "cp_sfb": ("error", "tensor-memory-uninitialised"),
    "mma": ("review", "tensor-memory-uninitialised"),
    "alloc": ("error", "tensor-operand"),
    "dealloc": ("error", "tensor-memory-leak"),
    "first_sync": (
        "error",
        {"eager": "read-after-write-race", "late": "read-after-write-race", "random:3": "no-mbarrier"},
    ),
    "last_sync": ("error", "tensor-memory-freed"),
}


# Mutants of the kernel for a pair of CTAs.
PAIR_MUTANTS = {
    "peer_completed": ("error", "read-before-completion"),
    "arrive_leader": ("error", "deadlock"),
    "first_sync": ("error", "read-after-write-race"),
    "last_sync": ("error", "tensor-operand"),
    "before_end": ("review", "missing-tcgen05-fence"),
    "commit_empty": ("error", "deadlock"),
}


# A line, its replacement, and the finding that must be there.
ALTERED = [
    (
        "issuer_full",
        "  mbarrier.try_wait.parity.shared::cta.b64 %pw, [%fb], 0;\n  @!%pw bra issuer_full_W;",
        "missed-phase",
    ),
    ("dealloc", "  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 32;", "tensor-memory"),
    ("alloc", "  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 96;", "tensor-memory"),
    ("alloc", "  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;", "tensor-operand"),
    ("dealloc", "  tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tm, 256;", "cta-group"),
    ("ld", "  xor.b32 %r5, %r5, 2097152;\n  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%r5];", "tensor-memory"),
]
