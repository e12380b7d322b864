"""The text report: findings of one kind and source line as one group, short kernel names, advice."""

from __future__ import annotations

import re
import subprocess

from simulator.tests.sim_kit import ROOT, built

HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def report(kernel: str, *lines: str, tmp_path) -> str:
    text = f"{HEADER}.visible .entry {kernel}()\n{{\n" + "\n".join(lines) + '\nret;\n}\n.file 1 "kernel.cu"\n'
    path = tmp_path / "kernel.ptx"
    path.write_text(text)
    done = subprocess.run([built("ptxsim"), path, "--block", "64"], capture_output=True, text=True, check=False)
    return done.stdout[: done.stdout.index("verdict:")]


READS = (
    ".reg .b32 %r<4>; .shared .align 16 .b8 cell[64]; mov.u32 %r1, cell;",
    ".loc 1 7 3",
    "ld.shared.u32 %r2, [%r1];",
    "ld.shared.u32 %r2, [%r1+4];",
    "ld.shared.u32 %r2, [%r1+8];",
    ".loc 1 8 3",
    "ld.shared.u32 %r2, [%r1+12];",
)


def test_findings_of_a_kind_at_a_line_are_one_group_with_a_count(tmp_path):
    text = report("k", *READS, tmp_path=tmp_path)
    assert text.count("review: uninitialised-read:") == 2
    first, second = text.split("review: ")[1:]
    assert "kernel.cu:7" in first
    assert "and 2 more pairs of PTX lines there\n  seen 6 times\n" in first
    assert "kernel.cu:8" in second
    assert "more pairs" not in second
    assert "seen 2 times" in second


def test_a_kernels_name_is_short_and_readable(tmp_path):
    names = {
        "_ZN7cutlass13device_kernelINS_4gemm6kernel3FooEEEvNT_6ParamsE": "cutlass::device_kernel<Foo>",
        "_Z5otherPi": "other",
        "_Z7reverseILi64ELb1ELin3EEEvPi": "reverse<64, true, -3>",
        "_Z4tileILj128EN4cute1CILi8EEEEvv": "tile<128, C<8>>",
        "_ZN4gemm6kernelIPKfNS_4tileILi64ELi2EEELNS_4KindE3EJ13__nv_bfloat16dEEEvv": (
            "gemm::kernel<const float*, tile<64, 2>, (Kind)3, __nv_bfloat16, double>"
        ),
        "_Z4pickIFivELi7EEvv": "pick<...>",
        "_Z4pickIJELi7EEvv": "pick<7>",
        f"_Z4deepI{'J' * 10**6}Evv": "deep<...>",
        "_Z4pickIN3oneILi1EUlvE_EELi7EEvv": "pick<one<1, ...>>",
        f"_Z4longI{'4four' * 30}EvvE": f"long<{'four, ' * 12}...>",
        "_ZN12_GLOBAL__N_14makeEv": "(anonymous)::make",
        "_ZL6hiddenv": "hidden",
        "plain": "plain",
        "_Z999x": "_Z999x",
    }
    for mangled, name in names.items():
        text = report(mangled, *READS, tmp_path=tmp_path)
        assert f"  kernel {name}, CTA 0,0,0, warp 0, byte 0x400 of shared memory (cell)\n" in text, text


def readme_kinds() -> set[str]:
    """The kinds in the table of simulator/README.md."""
    table = (ROOT / "simulator/README.md").read_text().split("| kind | what it means |")[1].split("\n\n")[0]
    kinds = set()
    for row in table.splitlines()[2:]:
        kinds |= {re.sub(r" \(.*", "", kind.strip()) for kind in row.split("|")[1].split(",")}
    return kinds


def call_arguments(text: str, begin: int) -> list[str]:
    """The arguments of a C call; `begin` is the place after its opening parenthesis."""
    arguments, depth, start = [], 0, begin
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[(){}\[\],]', text[begin:]):
        at = begin + token.start()
        if token[0] in "([{":
            depth += 1
        elif token[0] == "," and depth == 0:
            arguments.append(text[start:at])
            start = at + 1
        elif token[0] in ")]}":
            depth -= 1
            if depth < 0:
                return [*arguments, text[start:at]]
    raise AssertionError("a call without an end")


def kinds_in_code() -> set[str]:
    """Every kind of finding in the C sources: literals passed as a parameter `kind`, or stored as one."""
    sources = (ROOT / "simulator").rglob("*.[ch]")
    code = "\n".join(path.read_text() for path in sources if path.name != "advice.c" and "tests" not in path.parts)
    positions = {"sim_report": 2}
    for function in re.finditer(r"\b(\w+)\(([^(){};]*\bconst char \*kind\b)", code):
        positions[function[1]] = function[2].count(",")
    stored = r'\bconst char (?:kind|refused)\[\] = ("[^"]+")|\bstruct verdict\)?(?: \w+ =)? ?\{\s*([^,]*),'
    passed = ["".join(map(str, found.groups(""))) for found in re.finditer(stored, code)]
    for call in re.finditer(rf"\b({'|'.join(positions)})\(", code):
        arguments = call_arguments(code, call.end())
        passed += arguments[positions[call[1]] : positions[call[1]] + 1]
    return {kind for text in passed for kind in re.findall(r'"([a-z0-9-]+)"', text)}


def test_the_tables_of_kinds_name_every_kind_in_the_code():
    tensor = set(re.findall(r"`([a-z0-9-]+)`", (ROOT / "simulator/tensorcore/README.md").read_text()))
    kinds = kinds_in_code()
    assert readme_kinds() <= kinds, readme_kinds() - kinds
    assert kinds <= readme_kinds() | tensor, kinds - readme_kinds() - tensor


# The message of each of these states the rule and the values, so it needs no advice.
SELF_EXPLAINED = {"barrier-count", "branch-index", "call-depth", "cluster-barrier", "groups", "launch-control"}
SELF_EXPLAINED |= {"matrix-descriptor", "member-mask", "multicast-mask", "shuffle-source", "vprintf", "wgmma"}


def test_each_kind_of_the_readme_has_advice(tmp_path):
    advice = (ROOT / "simulator/report/advice.c").read_text()
    missing = {kind for kind in readme_kinds() - SELF_EXPLAINED if f'{{"{kind}",' not in advice}
    assert not missing
    assert re.search(r"\n  PTX: ld: .*\. Chips read .*\. Fix: write .*\.\n", report("k", *READS, tmp_path=tmp_path))
