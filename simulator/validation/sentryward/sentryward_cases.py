"""The PTX texts that both checkers read: kernels of this repository and of others, and mutants of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from simulator.validation.mutants.backends.blackwell_grouped import FEW_GROUPS, GROUP_BYTES
from simulator.validation.mutants.gemm_problem import ALTERED, PAIR_MUTANTS
from simulator.validation.mutants.gemm_problem import MUTANTS as GEMM_MUTANTS
from simulator.validation.mutants.gemm_ptx import kernel, mutate
from simulator.validation.mutants.tma_pipeline import MUTANTS as PIPELINE_MUTANTS

ROOT = Path(__file__).resolve().parents[3]
PIPELINE = (ROOT / "tests/simulator/ptx/pipeline.ptx").read_text()
GEMM_BUFFERS = [f"buf:{size}" for size in (1 << 17, 1 << 17, 1 << 15, 1 << 15, 1 << 17)]


@dataclass
class Case:
    """A PTX text, how either side launches it, and whether it is wrong on purpose."""

    kernel: str
    mutant: str
    text: str
    entry: str
    grid: int = 1
    cluster: int = 1
    block: int = 128
    shared: int = 0
    scalars: list[tuple[str, int, str, int]] = field(default_factory=list)  # parameter, offset, type, value
    maps: list[dict] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)  # arguments of ptxsim; empty: not run by ptxsim
    shape: tuple[int, int, int] | None = None  # M, N, K of another project's kernel
    config: str = ""  # configuration of the Blackwell backend
    scope: str = ""  # CTAs and stages of the launch
    simulated: str = ""  # the simulator's text, where it differs from `text`
    by: str = ""  # the test that runs it on the simulator, where this program does not

    def input(self) -> dict:
        """SentryWard's input.json."""
        launch = {"grid_dim": [self.grid, 1, 1], "block_dim": [self.block, 1, 1]}
        launch |= {"cluster_dim": [self.cluster, 1, 1]} if self.cluster > 1 else {}
        launch |= {"dynamic_shared_bytes": self.shared} if self.shared else {}
        arguments = [
            {"parameter": p, "type": t, "value": v} | ({"offset": o} if o else {}) for p, o, t, v in self.scalars
        ]
        return {
            "schema": "spverify.kernel-input/v1",
            "entry": self.entry,
            "launch": launch,
            "arguments": arguments,
            "tma_descriptors": self.maps,
        }


def tensor_map(parameter: str, name: str, sizes: list[int], strides: list[int], box: list[int], kind: str) -> dict:
    """A descriptor as SentryWard's input has it; 128-byte swizzle for half floats, none for bytes."""
    return {
        "parameter": parameter,
        "object": name,
        "element_type": kind,
        "rank": len(sizes),
        "global_shape": sizes,
        "global_strides_bytes": strides,
        "box_shape": box,
        "element_strides": [1] * len(sizes),
        "swizzle": "none" if kind == "u8" else "128B",
        "interleave": "none",
        "oob_fill": "zero",
    }


def pipelines() -> Iterator[Case]:
    """The copy pipeline as it is, then with ordinary stores instead of its bulk store, and mutants of the latter."""
    common = {"entry": "pipeline", "block": 64, "scalars": [("tiles", 0, "u32", 7)]}
    common |= {"buffers": ["buf:4096", "buf:4096", "u32:7"]}
    yield Case("pipeline.ptx", "", PIPELINE, **common)
    store = re.compile(r"    add\.u32 %r25, %r6, %r19;.*?(?=NEXT:)", re.S)
    plain = store.sub(
        "    mul.wide.u32 %rd3, %r18, 16;\n    add.u64 %rd3, %rd2, %rd3;\n"
        "    st.global.v4.u32 [%rd3], {%r21, %r22, %r23, %r24};\n",
        PIPELINE,
    ).replace("    cp.async.bulk.wait_group 0;\n", "")
    plain = re.sub(r"\.param \.u64 (in|out)", r".param .u64 .ptr .global .align 16 \1", plain)
    plain = plain.replace(".reg .b64", ".reg .b64 %rd3, ", 1) if "%rd<" not in plain else plain
    yield Case("pipeline, ported", "", plain, **common)
    arrive = "    mbarrier.arrive.shared::cta.b64 _, [%r15];"
    one = (
        "    bar.warp.sync -1;\n    setp.eq.u32 %p8, %r18, 0;\n    @%p8 mbarrier.arrive.shared::cta.b64 _, [%r15], 32;"
    )
    yield Case("pipeline, ported, one arrival of 32", "", plain.replace(arrive, one), **common)
    for name, (before, after, _) in PIPELINE_MUTANTS.items():
        if before in plain:
            yield Case("pipeline, ported", name, plain.replace(before, after), **common)


def without_mad(text: str) -> str:
    """mad as mul and add: SentryWard does not follow tensor memory addresses through mad."""
    pattern = r"mad\.lo\.([su]32)(\s+)(%\w+), (%\w+), (-?\w+), (?!\3;)(%\w+);"
    return re.sub(pattern, r"mul.lo.\1\2\3, \4, \5; add.\1 \3, \3, \6;", text)


def ported(text: str, pair: bool = False) -> str:
    """For SentryWard: typed pointers, no rank in addresses, tensor memory addresses without mad."""
    text = without_mad(re.sub(r"\.param \.u64 (p\w+)", r".param .u64 .ptr .global .align 16 \1", text))
    return text if pair else text.replace("mov.u32 %rank, %cluster_ctarank;", "mov.u32 %rank, 0;")


def gemms() -> Iterator[Case]:
    """The NVFP4 kernels of gemm_ptx.py."""
    common = {"entry": "gemm", "block": 256, "buffers": GEMM_BUFFERS}
    text = kernel(chunks=3)
    yield Case("gemm_ptx, ported", "", ported(text), **common)
    for name in GEMM_MUTANTS:
        yield Case("gemm_ptx, ported", f"no {name}", ported(mutate(text, name)), **common)
    for name, replacement, _ in ALTERED:
        label = replacement.split("\n")[0].strip().split(" //")[0]
        yield Case("gemm_ptx, ported", f"{name}: {label[:60]}", ported(mutate(text, name, replacement)), **common)
    pair = kernel(64, 3, pair=True)
    yield Case("gemm_ptx, pair, ported", "", ported(pair, True), grid=2, cluster=2, **common)
    for name in PAIR_MUTANTS:
        yield Case(
            "gemm_ptx, pair, ported", f"no {name}", ported(mutate(pair, name), True), grid=2, cluster=2, **common
        )


def hopper(text: str) -> Iterator[Case]:
    """The Hopper backend's GEMM and the kernel before it; and the grouped GEMM of few groups."""
    tests = "tests/simulator/kernels/test_hopper_kernels.py"
    entries = re.findall(r"\.entry (\w+)\(", text)
    gemm = next(name for name in entries if "dual_gemm" in name)
    last = f"{gemm}_param_3"
    values = ((24, "s64", 0), (32, "s32", 128), (36, "s32", 128), (40, "s32", 2), (44, "s32", 8), (48, "s32", 0))
    maps = [
        tensor_map(f"{gemm}_param_0", "activations", [512, 128, 1], [1024, 131072], [64, 128, 1], "f16"),
        tensor_map(f"{gemm}_param_1", "b1", [256, 128, 1], [256, 32768], [128, 64, 1], "u8"),
        tensor_map(f"{gemm}_param_2", "b2", [256, 128, 1], [256, 32768], [128, 64, 1], "u8"),
    ]
    scalars = [(last, at, kind, value) for at, kind, value in values]
    yield Case("Hopper dual_gemm_kernel", "", text, gemm, 1, 1, 384, 232448, scalars, maps, by=tests)
    dequantize = next(name for name in entries if "dequantize" in name)
    fields = ((24, "s64", 256), (32, "s64", 4096), (40, "s64", 4096), (48, "u32", 4), (52, "u32", 16))
    fields += ((56, "u32", 1024), (60, "u32", 512), (64, "u32", 64), (68, "u32", 4))
    scalars = [(f"{dequantize}_param_0", at, kind, value) for at, kind, value in fields]
    yield Case("Hopper dequantize_kernel", "", text, dequantize, 4, 1, 64, 0, scalars, by=tests)
    few = next(name for name in entries if "19grouped_gemm_kernelI17hopper_few_groups" in name)
    tests = "tests/simulator/kernels/test_grouped_kernels.py"
    members = ((160, 64), (164, 128), (168, 0), (172, 64), (180, 2), (184, 8), (188, 0))  # struct hopper_group's
    members += ((200, 64), (204, 0), (208, 1), (212, 1), (216, 1), (2048, 1))  # ... tile 1, m64; of one group
    scalars = [(f"{few}_param_0", at, "s32", value) for at, value in members]
    b = tensor_map(f"{few}_param_0", "b", [256, 128, 1], [256, 32768], [128, 128, 1], "u8") | {"swizzle": "128B"}
    yield Case("Hopper grouped_gemm_kernel", "", text, few, 1, 1, 384, 232448, scalars, [b], by=tests)


# Alterations of another project's compiled kernel.
THIRD_PARTY_MUTANTS = {
    "no fence.mbarrier_init": (r"fence\.mbarrier_init\.release\.cluster;", ""),
    "no expect_tx": (r"(mbarrier\.arrive)\.expect_tx(\S+ _, \[%r\d+\]), [%r\d]+;", r"\1\2;"),
    "no commit": (r"tcgen05\.commit[^;]*;", ""),
    "no tcgen05 fence": (r"tcgen05\.fence::after_thread_sync;", ""),
    "no mbarrier wait": (r"mbarrier\.try_wait\S+ ([pP]1?), [^;]*;", r"setp.eq.u32 \1, 0, 0;"),
    "no wait::ld": (r"tcgen05\.wait::ld\.sync\.aligned;", ""),
    "no dealloc": (r"tcgen05\.dealloc[^;]*;", ""),
    "no barrier": (r"bar\.sync\s+0;", ""),
}


def with_direct_predicates(text: str) -> str:
    """The text with waits that branch on their own predicate, and lane 0 for the elected lane: SentryWard follows
    neither a predicate through selp and setp, nor elect.sync."""
    through = r"selp\.u32 (?P<bit>%r\d+), 1, 0, p;\s*\}(?P<between>.*?)setp\.eq\.s32\s+(?P<no>%p\d+), (?P=bit), 0;"
    elect = re.compile(r"elect\.sync _\|p, 0xffffffff;\s*" + through, re.S)
    text = elect.sub(
        r".reg .b32 lane; mov.u32 lane, %tid.x; and.b32 lane, lane, 31; setp.ne.u32 \g<no>, lane, 0; }\g<between>", text
    )
    wait = re.compile(
        r"\{\s*\.reg \.pred p;\s*mbarrier\.try_wait(?P<form>\S+) p, (?P<of>[^;]*);\s*"
        + through
        + r"(?P<then>.*?)@(?P=no) bra",
        re.S,
    )
    return wait.sub(r"mbarrier.try_wait\g<form> \g<no>, \g<of>; \g<between>\g<then>@!\g<no> bra", text)


# Configurations of the Blackwell backend: one CTA; a pair; two pairs that share K; the same with shared columns of
# scale factors.  Each with its stages of K: one more than the ring has, or as many as SentryWard's time allows.
BLACKWELL_STAGES = {"m128n64": 6, "m256n64": 8, "m256n128k2": 12, "m256n192k2": 2}
# Stages of K of every grouped kernel.
GROUPED_STAGES = {"m128n128": 6, "m128n256": 5, "m256n128": 8, "m256n256": 6}
BLACKWELL_LAUNCH = {"block": 320, "shared": 232448}


def blackwell_text(module: str) -> str:
    """A kernel of the Blackwell backend, rewritten so that SentryWard can follow it."""
    text = with_direct_predicates(re.sub(r"\.collector::a::\w+", "", without_mad(module)))
    return re.sub(r"and\.b64\s+(%rd\d+), %rd\d+, 31;", r"mov.b64 \1, 0;", text)  # C's alignment


def blackwell_maps(parameter: str, at: int, codes: list[tuple[int, int]], scales: list[int], steps: int) -> list[dict]:
    """Tensor maps one after another from byte `at` of the parameter: of codes (rows, rows of a copy) and of scale
    factors (tiles of 128 rows)."""
    maps = []
    for i, (rows, box) in enumerate(codes):
        sizes, strides = [32 * steps, rows, 1], [32 * steps, 32 * steps * rows]
        maps.append(tensor_map("", f"codes{i}", sizes, strides, [128, box, 1], "u8") | {"swizzle": "128B"})
    for i, tiles in enumerate(scales):
        maps.append(tensor_map("", f"scales{i}", [256, tiles, 1], [512, 512 * tiles], [256, 4, 1], "u16"))
        maps[-1]["swizzle"] = "none"
    for i, each in enumerate(maps):
        offset = at + 128 * i
        each |= {"parameter": parameter, "object": f"{each['object']}at{at}" if at else each["object"]}
        each |= {"offset": offset} if offset else {}
    return maps


def blackwell(modules: dict[str, str]) -> Iterator[Case]:
    """The Blackwell backend's GEMM on one tile."""
    for config, stages in BLACKWELL_STAGES.items():
        text = blackwell_text(modules[config])
        name = re.search(r"\.entry (\w+)", text)[1]
        features, _, ctas, tail, splits = map(int, re.findall(r"Li(\d+)E", name)[:5])
        stacked = tail == 0 and splits == 1  # then each CTA of a pair has all rows of one operand
        tokens, steps = 128 * ctas, 4 * stages
        box = features if stacked else features // ctas
        feature_tiles = -(-features // 128) * steps
        codes, scales = [(tokens, 128), (features, box), (features, box)], [ctas * steps, feature_tiles, feature_tiles]
        maps = blackwell_maps(f"{name}_param_0", 0, codes, scales, steps)
        values = ((776, tokens), (780, features), (784, steps), (788, 0))
        scalars = [(f"{name}_param_0", at, "s32", value) for at, value in values]
        group = ctas * splits
        common = BLACKWELL_LAUNCH | {"entry": name, "grid": group, "cluster": group}
        common |= {"scalars": scalars, "maps": maps, "config": config}
        common["scope"] = f"{group} CTA{'s' * (group > 1)}, {stages} stages of K"
        yield Case(f"Blackwell {config}, ported", "", text, **common)


def with_one_group(text: str) -> str:
    """The text with the first group's address instead of the computed one: SentryWard takes each load from a computed
    address for another value, and then cannot tell where C's rows lie."""
    text, count = re.subn(
        r"mul\.wide\.u32\s+(%rd\d+), %r\d+, 640;\s*add\.s64\s+(%rd\d+), (%rd\d+), \1;", r"mov.u64 \2, \3;", text
    )
    assert count == 2, "the search's loop and what it found"
    return text


# Alterations of one of the grouped kernels, of one CTA.
GROUPED_MUTANT = "m128n128"
GROUPED_MUTANTS = {
    "no wait for a barrier": (r"mbarrier\.try_wait\S+ (%p\d+), [^;]*;", r"setp.eq.u32 \1, 0, 0;"),
    "no commit": (r"tcgen05\.commit[^;]*;", ""),
    "too few bytes": (r"(mbarrier\.arrive\.expect_tx[^;]*, )[%\w]+;", r"\g<1>16;"),
}


def grouped_case(config: str, text: str, groups: int) -> Case:
    """A grouped kernel, already ported, on groups of one tile each; the simulator always launches two groups."""
    name = re.search(r"\.entry (\w+)", text)[1]
    half, _, ctas, tail, _ = map(int, re.findall(r"Li(\d+)E", name)[:5])
    tokens, columns, steps = 128 * ctas, 2 * half, 4 * GROUPED_STAGES[config]
    box, scales = half if tail == 0 else half // ctas, [ctas * steps, -(-columns // 128) * steps]
    maps, values = [], [(FEW_GROUPS * GROUP_BYTES, groups)]
    for number in range(groups):  # struct blackwell_group
        at = number * GROUP_BYTES
        maps += blackwell_maps(f"{name}_param_0", at, [(tokens, 128), (columns, box)], scales, steps)
        members = (tokens, columns, steps, 0, number, 1)
        values += [(at + 520 + 4 * i, value) for i, value in enumerate(members)]
    scope = f"{ctas * groups} CTA{'s' * (ctas * groups > 1)}, {GROUPED_STAGES[config]} stages of K"
    return Case(
        kernel=f"Blackwell grouped {config}, {groups} group{'s' * (groups > 1)}, ported", mutant="",
        text=with_one_group(text) if groups == 1 else text, entry=name, grid=ctas * groups, cluster=ctas,
        scalars=[(f"{name}_param_0", at, "s32", value) for at, value in values], maps=maps, config=config,
        scope=scope, simulated=text, **BLACKWELL_LAUNCH,
    )  # fmt: skip


def grouped(modules: dict[str, str]) -> Iterator[Case]:
    """The grouped kernels with one group of one tile, and with two groups, which the kernel has to search."""
    for config in GROUPED_STAGES:
        text = blackwell_text(modules[config])
        yield from (grouped_case(config, text, groups) for groups in (1, 2))
    text = blackwell_text(modules[GROUPED_MUTANT])
    for what, (pattern, replacement) in GROUPED_MUTANTS.items():
        for match in re.finditer(pattern, text):
            mutant = text[: match.start()] + match.expand(replacement) + text[match.end() :]
            yield replace(grouped_case(GROUPED_MUTANT, mutant, 1), mutant=what)


def learn_cuda(texts: dict[int, str]) -> Iterator[Case]:
    """gau-nernst/learn-cuda's one-CTA kernels on one tile, and mutants of the warp-specialised one."""
    for version, text in texts.items():
        entry = re.search(r"\.entry (\w*ELb1E\w*|\w*v[34]_kernel\w*)\(", text)
        found = re.search(rf"v{version}_kernelILi(\d+)ELi(\d+)E(?:Li(\d+)E)?", entry.group(1) if entry else "")
        if not entry or not found:
            continue
        name, tile, depth, stages = entry.group(1), int(found[1]), int(found[2]), int(found[3] or 1)
        k = 2 * depth * max(1, stages)
        unit = 8 if version == 1 else 64
        maps = []
        for i, rows in ((0, 128), (1, tile)):
            box, strides = [unit, rows, depth // unit], [2 * k, 2 * unit]
            maps.append(tensor_map(f"{name}_param_{i}", "AB"[i], [unit, rows, k // unit], strides, box, "bf16"))
        for each in maps if version == 1 else ():
            each["swizzle"] = "none"
        scalars = [(f"{name}_param_{i}", 0, "u32", value) for i, value in ((3, 128), (4, tile), (5, k))]
        common = {"entry": name, "shared": (128 + tile) * depth * 2 * stages, "scalars": scalars, "maps": maps}
        common |= {"shape": (128, tile, k)}
        yield Case(f"learn-cuda v{version}", "", text, **common)
        for label, (pattern, replacement) in THIRD_PARTY_MUTANTS.items() if version == 4 else ():
            mutant, count = re.subn(pattern, replacement, text)
            if count:
                yield Case(f"learn-cuda v{version}", label, mutant, **common)
