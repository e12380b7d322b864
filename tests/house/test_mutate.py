"""The fault planter: its operators, its sample, and its report on a project whose tests have a known hole."""

from __future__ import annotations

import subprocess
import time

import pytest

pytest.importorskip("tree_sitter_cuda")

from scripts.mutate.__main__ import summary
from scripts.mutate.areas import AREAS, Area, area_tests, matching
from scripts.mutate.driver import run_area, sample
from scripts.mutate.operators import faults
from scripts.mutate.workspace import Workspace, bytecode


def edits(path, text):
    """(operator, the file with the fault) for each fault."""
    source = text.encode()
    return [(fault.operator, fault.apply(source).decode()) for fault in faults(path, source)]


@pytest.mark.parametrize(
    ("line", "operator", "faulty"),
    [
        ("return a < b;", "comparison", "return a <= b;"),
        ("return a < b;", "comparison", "return a >= b;"),
        ("return a && b;", "logic", "return a || b;"),
        ("return a && b;", "operand", "return b;"),
        ("return a * 7u;", "constant", "return a * 8u;"),
        ("return 0x10 + a;", "constant", "return 0xf + a;"),
        ("return 0.5f * a;", "constant", "return 1.0f * a;"),
        ("if (a) { return 1; }", "condition", "if (!(a)) { return 1; }"),
        ("a += b;", "arithmetic", "a -= b;"),
        ("a += b;", "statement", ";"),
        ("return f(a, b);", "swap", "return f(b, a);"),
        ("return max(a, b);", "opposite", "return min(a, b);"),
        ("return (int64_t)a * b;", "cast", "return a * b;"),
        ("return a ? b : 2;", "branch", "return b;"),
        ("return !a;", "unary", "return a;"),
        ("p->m = p->n;", "member", "p->n = p->n;"),
        ("int x[] = {a, b, 3};", "element", "int x[] = {a, 3};"),
        ("for (;;) { break; }", "jump", "for (;;) { continue; }"),
        ('asm volatile("fence;" ::);', "statement", ";"),
    ],
)
def test_each_fault_of_c(line, operator, faulty):
    body = "int f(int a, int b, struct s *p) {{\n{}\n}}\n"
    assert (operator, body.format(faulty)) in edits("x.cu", body.format(line))


@pytest.mark.parametrize(
    ("line", "operator", "faulty"),
    [
        ("return a <= b <= c", "operand", "return b <= c"),
        ("return a <= b <= c", "comparison", "return a < b <= c"),
        ("return a and b", "operand", "return a"),
        ("return not a", "unary", "return a"),
        ("return f(a, b)", "swap", "return f(b, a)"),
        ("return f(a, key=b)", "keyword", "return f(a)"),
        ("return ('x', 'y', 'z')", "element", "return ('x', 'z')"),
        ("return ('x', 'y')", "element", "return ('x',)"),
        ("return [x for x in a if x]", "condition", "return [x for x in a if True]"),
        ("return a if b else c", "branch", "return c"),
        ("a.append(b)", "statement", "pass"),
        ("raise ValueError(a)", "statement", "pass"),
        ("return a not in b", "comparison", "return a in b"),
        ("return a.m + a.n", "member", "return a.n + a.n"),
        ("return a[1:]", "constant", "return a[2:]"),
        ("return any(a)", "opposite", "return all(a)"),
    ],
)
def test_each_fault_of_python(line, operator, faulty):
    body = "def g(a, b, c):\n    {}\n"
    assert (operator, body.format(faulty)) in edits("x.py", body.format(line))


def test_no_fault_leaves_the_result_as_it_was():
    body = "void f(struct s *p, int a) {{\n{}\n}}\n"
    for line, operator in (
        ("g((uint64_t)a);", "cast"),
        ("p->m = (uint32_t)__builtin_ctz(a);", "cast"),
        ("_mm256_add_ps(p, a);", "swap"),
    ):
        assert operator not in [found for found, _ in edits("x.c", body.format(line))]
    assert "cast" in [found for found, _ in edits("x.c", body.format("g((uint8_t)a);"))]
    assert "swap" not in [found for found, _ in edits("x.py", "def g(a, b):\n    return max(a, b)\n")]


def test_a_local_array_grows_only_where_sizeof_reads_its_size():
    def extents(declared, then="", path="x.c"):
        body = f"void f(void) {{\n{declared}\n{then}\n}}\n"
        return sorted(
            found.split("[", 1)[1].split(";")[0]
            for operator, text in edits(path, body)
            if operator == "constant" and (found := text.splitlines()[1]) != declared
        )

    assert extents("int a[4];") == extents("uint8_t a[4];", "g(a, sizeof b);") == ["3]"]
    assert extents("int a[4];", "g(a, sizeof a);") == extents("int a[4];", "g(a, sizeof(a));") == ["3]", "5]"]
    assert extents("int a[4][8];") == ["3][8]", "4][7]", "4][9]"]
    assert extents("int a[2] = {n};") == ["1] = {n}", "3] = {n}"]
    outside = [text for _, text in edits("x.h", "int a[4];\nstruct s { int m[6]; };\nvoid h(char n[9]);\n")]
    assert len(outside) == 6


def test_comments_strings_and_types_have_no_faults():
    assert edits("x.c", '/* a < b */\n#include "a-1.h"\n_Static_assert(1 + 1 == 2, "a < b");\n') == []
    assert edits("x.py", '"""a < b"""\nimport a\n\n\ndef g(x: tuple[int, 3]) -> None:\n    """1 + 1"""\n') == []


def test_c_keeps_its_line_numbers():
    source = "int f(int a)\n{\n    g(a,\n      a + 1);\n    return a;\n}\n"
    assert {faulty.count("\n") for _, faulty in edits("x.c", source)} == {source.count("\n")}


def test_equal_bytecode_is_recognised():
    assert bytecode(b"x = 1\n", "x.py") == bytecode(b"\nx = (1)\n", "x.py")
    assert bytecode(b"x = 1\n", "x.py") != bytecode(b"x = True\n", "x.py")
    assert bytecode(b"x = (\n", "x.py") is None


SOURCE = """\
def inside(low, value, high):
    return low <= value <= high
"""
TESTS = """\
from toy import inside


def test_inside():
    assert inside(1, 2, 2) and not inside(1, 3, 2)
"""
C_SOURCE = """\
#include <stdint.h>
int main(int count, char **names)
{
    (void)names;
    return (int64_t)count != 1;
}
"""
C_TESTS = """\
import subprocess


def test_program():
    assert subprocess.run(["build/program"]).returncode == 0
"""
MAKEFILE = """\
build/program: build/program.o
\tgcc -o $@ $<
build/program.o: program.c
\tmkdir -p build && gcc -O2 -Werror -Wall -Wextra -c -o $@ $<
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A copy of a project under git whose tests never look below the lower bound."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # starts sooner
    root = tmp_path / "toy"
    root.mkdir()
    files = {"toy.py": SOURCE, "test_toy.py": TESTS, "program.c": C_SOURCE, "test_c.py": C_TESTS, "Makefile": MAKEFILE}
    for name, text in files.items():
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    copy = Workspace(root, tmp_path / "copy")
    copy.create()
    return copy


def planted(copy, area, count=100):
    drawn = sample(copy.root, matching(copy.root, area.files), "1:toy")
    return run_area("toy", area, drawn, [copy], count, time.monotonic() + 60, lambda result: None)


def test_a_survivor_is_reported_and_the_copy_left_clean(toy):
    run = planted(toy, Area(("toy.py",), ("test_toy.py",)))
    after = {(result.after, result.outcome) for result in run.results}
    assert ("return value <= high", "survived") in after  # the hole
    assert ("return low <= value", "caught") in after
    assert ("return low <= value < high", "caught") in after
    assert 0 < run.score() < 1
    assert f"| toy | 0 | 0 | {run.counts()['caught']} | {run.counts()['survived']} | {run.score():.0%} |" in summary(
        [run]
    )
    assert (toy.folder / "toy.py").read_text() == SOURCE


def test_equivalent_and_unbuildable_faults_do_not_count(toy):
    run = planted(toy, Area(("program.c",), ("test_c.py",), ("build/program",)))
    outcome = {(result.before, result.after): result.outcome for result in run.results}
    assert outcome["return (int64_t)count != 1;", "return count != 1;"] == "equivalent"
    assert outcome["return (int64_t)count != 1;", "return (int64_t)count == 1;"] == "caught"
    assert outcome["(void)names;", ";"] == "unbuildable"
    assert run.score() == run.counts()["caught"] / (run.counts()["caught"] + run.counts()["survived"])


def test_no_more_faults_are_planted_than_were_asked_for(toy):
    run = planted(toy, Area(("toy.py",), ("test_toy.py",)), count=2)
    assert run.counts()["caught"] + run.counts()["survived"] == 2


def test_failing_tests_are_a_problem_of_the_area(toy):
    (toy.folder / "toy.py").write_text(SOURCE.replace("<=", "<"))
    run = planted(toy, Area(("toy.py",), ("test_toy.py",)))
    assert "fail without a fault" in run.problem and not run.results and run.problem in summary([run])


def test_tests_that_name_a_source_come_first(root):
    area = AREAS["bench"]
    assert area_tests(root, area, "scripts/bench/check_gpu.py")[0] == "tests/bench/test_check_gpu.py"
    assert sorted(area_tests(root, area, "scripts/bench/host.py")) == sorted(area_tests(root, area))


def test_the_sample_depends_on_the_seed_alone(root):
    files = ["scripts/mutate/areas.py"]
    first = sample(root, files, "1")
    assert first == sample(root, files, "1")
    assert first != sample(root, files, "2")
    assert sorted(first, key=repr) == sorted(sample(root, files, "2"), key=repr)
    lines = {fault.line for fault in first}
    assert {fault.line for fault in first[: len(lines)]} == lines  # a fault a line before the second of any


@pytest.mark.parametrize("name", AREAS)
def test_an_area_has_sources_and_tests(root, name):
    assert all(matching(root, (pattern,)) for pattern in (*AREAS[name].files, *AREAS[name].tests)), AREAS[name]


def test_every_source_of_the_product_belongs_to_an_area(root):
    covered = {file for area in AREAS.values() for file in matching(root, area.files)}
    tops = ("submission", "reference", "eval", "simulator")
    files = matching(root, tuple(f"{top}/**/*{end}" for top in tops for end in (".[ch]", ".cu", ".cuh", ".py")))
    apart = ("simulator/python/", "simulator/example/", "simulator/validation/", "simulator/calibration/")
    assert {
        file
        for file in files
        if file not in covered and not file.startswith(apart) and not file.endswith("__init__.py")
    } == set()
