"""Matches machine code with PTX: for each PTX instruction its place in ptxas' order, its issue slots and cycles.

A block of machine code belongs to the PTX block from which most of its instructions come; those are at home there.  An
instruction from another block (say, moved out of a loop) is charged to the next instruction that is at home.  Copies of
an instruction (an unrolled loop) share its charge equally.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from simulator.python.machine_code.ptx import BRANCH, ENDS, Function, Module
from simulator.python.machine_code.sass import NO_BARRIER, Instruction

ALU_NAMES = """
LOP3 SHF IADD3 ISETP SEL PRMT LEA F2FP FSETP FMNMX IMNMX VIMNMX PLOP3 P2R R2P SGXT BMSK LOP IADD I2FP FSEL MOV HSETP2
VIADD FCHK CS2R F2IP I2IP HMNMX2 IABS SHL SHR CSET VIADDMNMX VIMNMX3
"""
ALU = frozenset(ALU_NAMES.split())
FMA = frozenset(["FFMA", "FMUL", "FADD", "FFMA32I", "FSWZADD"])
HALF = frozenset(["HFMA2", "HMUL2", "HADD2"])
SPECIAL = frozenset(["MUFU", "POPC", "FLO", "BREV", "I2F", "F2I", "F2F", "FRND"])
# PTX instructions that do more than compute, by the start of their name (the longest match counts) -> the machine
# instructions that carry them out.
CARRIES_OUT = {
    "wgmma.fence": ("WARPGROUP.ARRIVE",),
    "wgmma.wait_group": ("WARPGROUP.DEPBAR",),
    "wgmma.mma_async": ("HGMMA", "IGMMA", "QGMMA", "BGMMA"),
    "ld": ("LD",),
    "st": ("ST",),
    "bar": ("BAR", "UCGABAR", "WARPSYNC", "NOP"),
    "mbarrier": ("SYNCS",),
    "fence": ("MEMBAR", "FENCE", "CCTL"),
    "cp.async": ("LDGSTS", "UBLKCP", "UTMA"),
    "setmaxnreg": ("USETMAXREG",),
    "tcgen05.alloc": ("UTCATOMSWS",),
    "tcgen05.dealloc": ("UTCATOMSWS",),
    "tcgen05.relinquish_alloc_permit": ("UVIRTCOUNT",),
    "tcgen05.cp": ("UTCCP",),
    "tcgen05.mma": ("UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA"),
    "tcgen05.commit": ("UTCBAR",),
    "tcgen05.ld": ("LDTM",),
    "tcgen05.st": ("STTM",),
}
# For sm_100a ptxas adds a slow path to a cluster's barrier, whose instructions have the barrier's line too.  Its code
# for sm_90a has less of this; predictions for an H200 were made without these entries.
CARRIES_OUT_BESIDE_TCGEN05 = {
    "barrier.cluster.arrive": ("UCGABAR_ARV",),
    "barrier.cluster.wait": ("UCGABAR_WAIT",),
}
# ptxas gives these no line, so that they seem to come from the previous instruction.
WITHOUT_LINE = frozenset(["R2UR", "UMOV", "NOP"])
PIPES = ("alu", "fma", "half", "imad", "imad_wide", "special")
HALF_AT_HOME = 0.5
A_COPY = 0.4  # share of a block's instructions that makes a copy of the block
# Reads whose latency exceeds a stall count; each has a column of its own.
ANSWERED = ("S2R", "S2UR", "LDC")
LANES_IN_TURN = "BRA.U.ANY"
NEVER = 999
SCALE = 100  # charges are written in hundredths, because copies share them


def _never() -> list[int]:
    return [NEVER] * len(ANSWERED)


@dataclass
class Charge:
    """The cost of one execution of a PTX instruction."""

    order: int
    slots: float = 0  # machine instructions after those of the previous one, up to and including its own
    before: float = 0  # cycles since the issue of the previous one
    after: float = 0  # cycles until the next block, in the last one of a block
    reads: int = NO_BARRIER
    waits: int = 0
    parameters: int = 0  # lines of launch parameters that it reads, a bit each
    asked: list[int] = field(default_factory=_never)  # cycles since the last one it waits for, for each of ANSWERED
    pipes: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PIPES, 0.0))


def pipe_of(instruction: Instruction) -> str | None:
    """The arithmetic pipe that executes the instruction, if any."""
    name = instruction.name
    if name == "IDP":  # HW: in the same pipe (families.c)
        return "imad"
    if name == "IMAD":
        return "imad_wide" if ".WIDE" in instruction.text or ".HI" in instruction.text else "imad"
    sets = {"alu": ALU, "fma": FMA, "half": HALF, "special": SPECIAL}
    return next((pipe for pipe, names in sets.items() if name in names), None)


# ---- blocks ----


def ptx_blocks(module: Module, function: Function, kept: set[int]) -> dict[int, int]:
    """The block of each statement.  Blocks end only at branches that the machine code has too."""
    leaders = {function.first}
    for at in range(function.first, function.end):
        text = module.statements[at].text
        if not ENDS.match(text) or at not in kept:
            continue
        leaders.add(at + 1)
        found = BRANCH.match(text)
        if found and found[1] in function.labels:
            leaders.add(function.labels[found[1]])
    blocks, block = {}, -1
    for at in range(function.first, function.end):
        block += at in leaders
        blocks[at] = block
    return blocks


def sass_blocks(code: list[Instruction]) -> list[list[Instruction]]:
    """Splits machine code into basic blocks."""
    targets = {instruction.target for instruction in code} - {None}
    blocks: list[list[Instruction]] = [[]]
    for instruction in code:
        if blocks[-1] and not targets.isdisjoint(instruction.labels):
            blocks.append([])
        blocks[-1].append(instruction)
        if instruction.ends_block:
            blocks.append([])
    return [block for block in blocks if block]


def depths(blocks: list[list[Instruction]]) -> list[int]:
    """The loop depth of each block.  Loops in which lanes take turns do not count: no lane repeats them."""
    places = {label: block[0].address for block in blocks for item in block for label in item.labels}
    loops = []
    for instruction in (item for block in blocks for item in block):
        to = places.get(instruction.target or "")
        if to is not None and to <= instruction.address and not instruction.bare.startswith(LANES_IN_TURN):
            loops.append((to, instruction.address))
    return [sum(first <= block[0].address <= last for first, last in set(loops)) for block in blocks]


# ---- instructions without a line of their own ----


def name_mmas(module: Module, function: Function, blocks: list[list[Instruction]], block_of: dict[int, int]) -> None:
    """Assigns PTX statements to the MMAs, in order of each block, because ptxas gives them no line."""
    mmas = defaultdict(list)
    for at in range(function.first, function.end):
        if module.statements[at].name.startswith("wgmma.mma_async"):
            mmas[block_of[at]].append(at)
    found = defaultdict(list)
    for block in blocks:
        here = [item for item in block if item.name in ("HGMMA", "IGMMA", "QGMMA", "BGMMA")]
        votes = Counter(block_of[item.statement] for item in block if item.statement in block_of and item not in here)
        named = Counter({at: count for at, count in votes.items() if at in mmas})
        if here and named:
            found[named.most_common(1)[0][0]] += here
    for at, items in found.items():
        for i, item in enumerate(items):
            item.statement = mmas[at][i % len(mmas[at])]


def is_wait(module: Module, at: int) -> bool:
    """True for a wait on an mbarrier's phase."""
    return module.statements[at].name.startswith(("mbarrier.try_wait", "mbarrier.test_wait"))


def name_waits(module: Module, function: Function, blocks: list[list[Instruction]]) -> None:
    """Assigns waits to the first test of a try_wait loop: ptxas puts it before the loop with the line before it."""
    waits = [at for at in range(function.first, function.end) if is_wait(module, at)]
    for block in blocks:
        asked = -1
        for item in block:
            if item.name == "SYNCS" and ".PHASECHK" in item.text and 0 <= item.statement < function.end:
                if item.statement not in waits:
                    item.statement = next((at for at in waits if at > item.statement), item.statement)
                asked = item.statement
            elif item.name == "BRA" and asked >= 0 and not ENDS.match(module.statements[item.statement].text):
                ends = range(asked, function.end)
                item.statement = next((at for at in ends if ENDS.match(module.statements[at].text)), item.statement)


# ---- charges ----


def homes(blocks: list[list[Instruction]], block_of: dict[int, int]) -> dict[int, dict[int, int]]:
    """The blocks of machine code of each PTX block, and its number of instructions in each.

    A block whose instructions are all scattered among other blocks is at home where it ends.
    """
    counts = [Counter(block_of[item.statement] for item in block if item.statement in block_of) for block in blocks]
    total: Counter[int] = sum(counts, Counter())
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for at, count in enumerate(counts):
        main = count.most_common(1)[0][0] if count else None
        for block, number in count.items():
            if block == main or number >= HALF_AT_HOME * total[block]:
                found[block][at] = number
    ends = {block_of[item.statement]: at for at, code in enumerate(blocks) if (item := code[-1]).statement in block_of}
    for block in ends.keys() - found.keys():
        found[block][ends[block]] = 1
    return found


def innermost(found: dict[int, dict[int, int]], depth: list[int], waiting: set[int]) -> dict[int, set[int]]:
    """The copies of each block that run most often: those in the innermost loop; for a wait, its first test.

    Small loops that exist only in machine code (lanes that issue a copy in turn) belong to the block around them.
    """
    chosen = {}
    for block, places in found.items():
        levels = sorted({depth[at] for at in places}, reverse=True)
        if block in waiting:
            chosen[block] = {at for at in places if depth[at] == levels[-1]}
            continue
        least = A_COPY * sum(places.values())
        level = next(
            level for level in levels if sum(count for at, count in places.items() if depth[at] >= level) >= least
        )
        chosen[block] = {at for at in places if depth[at] >= level}
    return chosen


def charges(module: Module, function: Function, code: list[Instruction]) -> dict[int, Charge]:
    """The charge of each statement that has machine code of its own where it is at home."""
    kept = {item.statement for item in code if item.ends_block}
    block_of = ptx_blocks(module, function, kept)
    blocks = sass_blocks(code)
    name_mmas(module, function, blocks, block_of)
    name_waits(module, function, blocks)
    waiting = {block_of[at] for at in range(function.first, function.end) if is_wait(module, at)}
    depth = depths(blocks)
    at_home = innermost(homes(blocks, block_of), depth, waiting)
    last = [_primaries(module, block, at, at_home, block_of) for at, block in enumerate(blocks)]
    last = _with_what_carries_out(module, blocks, last)
    copies = _copies(last, block_of)
    found: dict[int, Charge] = {}
    entered = {item.target for item in code if item.target and not item.bare.startswith(LANES_IN_TURN)}
    pending = _Pending()
    for at, block in enumerate(blocks):
        before = blocks[at - 1]
        if not entered.isdisjoint(block[0].labels) or depth[at] != depth[at - 1]:
            pending = _Pending()
        pending = _charge_block(block, last[at], lambda statement: copies[block_of[statement]], found, pending)
        if block[-1].text.startswith("BRA ") and last[at - 1] and before[-1].bare.startswith(LANES_IN_TURN):
            found[max(last[at - 1])[1]].after += pending.cycles  # a loop that all lanes run
            pending = _Pending()
    return found


def _primaries(
    module: Module, block: list[Instruction], at: int, at_home: dict[int, set[int]], block_of: dict[int, int]
) -> list[tuple[int, int]]:
    """(place, statement) of the machine instructions that represent a PTX instruction: the last one in each copy."""
    places = [
        (place, item.statement)
        for place, item in enumerate(block)
        if item.statement in block_of and at in at_home.get(block_of[item.statement], ())
    ]
    texts = defaultdict(list)
    for place, statement in places:
        texts[statement].append(place)
    return sorted(
        (place, statement)
        for statement, own in texts.items()
        for place in _ends(block, _own(module, statement, block, own))
    )


def _does(module: Module, statement: int) -> tuple[str, ...]:
    """Names of the machine instructions that carry out a PTX instruction; empty if it only computes."""
    name = module.statements[statement].name
    table = CARRIES_OUT | (CARRIES_OUT_BESIDE_TCGEN05 if module.has_tcgen05 else {})
    kinds = [kind for kind in table if name == kind or name.startswith(kind + ".")]
    return table[max(kinds, key=len)] if kinds else ()


def _own(module: Module, statement: int, block: list[Instruction], places: list[int]) -> list[int]:
    """The places that certainly belong to the PTX instruction; all places if none is certain."""
    if does := _does(module, statement):
        return [place for place in places if block[place].bare.startswith(does)] or places
    return [place for place in places if block[place].name not in WITHOUT_LINE] or places


def _with_what_carries_out(
    module: Module, blocks: list[list[Instruction]], last: list[list[tuple[int, int]]]
) -> list[list[tuple[int, int]]]:
    """Removes places that only prepare an instruction that another block carries out."""

    def carries_out(at: int, place: int, statement: int) -> bool:
        does = _does(module, statement)
        return bool(does) and blocks[at][place].bare.startswith(does)

    carried = {key[1] for at, keys in enumerate(last) for key in keys if carries_out(at, *key)}
    return [[key for key in keys if key[1] not in carried or carries_out(at, *key)] for at, keys in enumerate(last)]


def _ends(block: list[Instruction], places: list[int]) -> list[int]:
    """The last place of each copy, given that all copies have the same opcodes."""
    copies = min(Counter(block[place].bare.split()[0] for place in places).values())
    size = len(places) // copies if len(places) % copies == 0 else len(places)
    return places[size - 1 :: size]


def _copies(last: list[list[tuple[int, int]]], block_of: dict[int, int]) -> dict[int, int]:
    """The number of copies of each PTX block where it is at home: that of most of its instructions."""
    times = Counter(statement for block in last for _, statement in block)
    by_block = defaultdict(Counter)
    for statement, count in times.items():
        by_block[block_of[statement]][count] += 1
    return {block: count.most_common(1)[0][0] for block, count in by_block.items()}


@dataclass
class _Pending:
    """Instructions issued since the last one that represents a PTX instruction."""

    slots: int = 0
    cycles: int = 0
    waits: int = 0
    parameters: int = 0
    asked: list[int] = field(default_factory=_never)
    pipes: Counter[str] = field(default_factory=Counter)

    def take(self, item: Instruction, asked: list[int]) -> None:
        """Adds an instruction."""
        self.slots += 1
        self.waits |= item.waits
        self.parameters |= item.parameters
        self.asked = list(map(min, self.asked, asked))
        if pipe := pipe_of(item):
            self.pipes[pipe] += 1

    def charged(self, charge: Charge, item: Instruction, share: float) -> None:
        """Adds a share of it to an instruction's charge."""
        charge.slots += self.slots * share
        charge.before += self.cycles * share
        charge.waits |= self.waits
        charge.parameters |= self.parameters
        charge.asked = list(map(min, charge.asked, self.asked))
        charge.reads = item.reads if item.reads != NO_BARRIER else charge.reads
        for pipe, count in self.pipes.items():
            charge.pipes[pipe] += count * share


class _Answers:
    """Tracks when a block reads special registers and constants."""

    def __init__(self) -> None:
        self.now, self.since = 0, dict[int, tuple[int, int]]()  # barrier that the answer releases -> kind, time

    def take(self, item: Instruction) -> list[int]:
        """Cycles since the last read that the instruction waits for, by kind; NEVER if there is none."""
        asked = _never()
        for barrier in [at for at in self.since if item.waits >> at & 1]:
            kind, when = self.since.pop(barrier)
            asked[kind] = min(asked[kind], self.now - when)
        self.since.pop(item.writes, None)
        if item.name in ANSWERED and item.writes != NO_BARRIER:
            self.since[item.writes] = ANSWERED.index(item.name), self.now
        self.now += item.stall
        return asked


def _charge_block(
    block: list[Instruction],
    primaries: list[tuple[int, int]],
    copies: Callable[[int], int],
    found: dict[int, Charge],
    pending: _Pending,
) -> _Pending:
    """Charges a block; returns what remains: everything, if nothing in the block represents a PTX instruction."""
    stands, answers = dict(primaries), _Answers()
    for place, item in enumerate(block):
        pending.take(item, answers.take(item))
        if place in stands:
            statement = stands[place]
            pending.charged(found.setdefault(statement, Charge(item.address)), item, 1 / copies(statement))
            pending = _Pending()
        pending.cycles += item.stall
    if not stands:
        return pending
    statement = stands[max(stands)]
    found[statement].after += pending.cycles / copies(statement)
    found[statement].slots += pending.slots / copies(statement)
    return _Pending()


def lines(module: Module, code: dict[str, list[Instruction]], registers: dict[str, int]) -> Iterable[str]:
    """The lines of a .machine file: one per function, then one for each of its instructions.

    registers: per thread, by function.
    """
    yield "machine-code 4"
    for function in module.functions:
        if function.name not in code:
            continue
        yield f"function {function.name} {registers.get(function.name, 0)}"
        for statement, charge in sorted(charges(module, function, code[function.name]).items()):
            where = module.statements[statement]
            numbers = [charge.slots, charge.before, charge.after, *(charge.pipes[pipe] for pipe in PIPES)]
            scaled = " ".join(str(round(number * SCALE)) for number in numbers)
            reads = charge.reads if charge.reads != NO_BARRIER else -1
            asked = " ".join(map(str, charge.asked))
            yield f"{where.line} {where.nth} {charge.order} {scaled} {reads} {charge.waits} {asked} {charge.parameters}"
