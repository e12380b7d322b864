"""The fault planter: its operators, its sample, and what it says of a project whose tests have a known hole."""

from __future__ import annotations

import subprocess
import time

import pytest

pytest.importorskip("tree_sitter_cuda")

from scripts.mutate.area import Area, matching, named_tests
from scripts.mutate.areas import AREAS
from scripts.mutate.driver import Driver, judged, read_results, sample, write_results
from scripts.mutate.operators import faults
from scripts.mutate.order import SLOW, described, own_tests, wider_tests
from scripts.mutate.report import COLUMNS, cells, score, score_table
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


def test_what_changes_nothing_is_no_fault():
    body = "void f(struct s *p, int a) {{\n{}\n}}\n"
    for line, operator in (
        ("g((uint64_t)a);", "cast"),
        ("p->m = (uint32_t)__builtin_ctz(a);", "cast"),
        ("_mm256_add_ps(p, a);", "swap"),
    ):
        assert operator not in [found for found, _ in edits("x.c", body.format(line))]
    assert "cast" in [found for found, _ in edits("x.c", body.format("g((uint8_t)a);"))]
    assert "swap" not in [found for found, _ in edits("x.py", "def g(a, b):\n    return max(a, b)\n")]


def test_one_more_in_a_local_array_is_room_that_nothing_uses_unless_its_size_is_asked():
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


def test_text_is_left_alone():
    assert edits("x.c", '/* a < b */\n#include "a-1.h"\n_Static_assert(1 + 1 == 2, "a < b");\n') == []
    assert edits("x.py", '"""a < b"""\nimport a\n\n\ndef g(x: tuple[int, 3]) -> None:\n    """1 + 1"""\n') == []


def test_faults_of_shell_and_make():
    shell = edits("x.sh", 'if [ -x "$a" ] && ! b; then\n  exit 1\nfi\n')
    assert ("comparison", 'if [ -d "$a" ] && ! b; then\n  exit 1\nfi\n') in shell
    assert ("logic", 'if [ -x "$a" ] || ! b; then\n  exit 1\nfi\n') in shell
    assert ("unary", 'if [ -x "$a" ] && b; then\n  exit 1\nfi\n') in shell
    make = edits("Makefile", "FLAGS := -O3 -fno\nall: a b ## help\n\t@cc $(FLAGS)\n")
    assert ("element", "FLAGS := -O3 \nall: a b ## help\n\t@cc $(FLAGS)\n") in make
    assert ("element", "FLAGS := -O3 -fno\nall: a  ## help\n\t@cc $(FLAGS)\n") in make
    assert len(make) == 6


def test_c_keeps_its_line_numbers():
    source = "int f(int a)\n{\n    g(a,\n      a + 1);\n    return a;\n}\n"
    assert {faulty.count("\n") for _, faulty in edits("x.c", source)} == {source.count("\n")}


def test_equal_bytecode_is_recognised():
    assert bytecode(b"x = 1\n", "x.py") == bytecode(b"\nx = (1)\n", "x.py")
    assert bytecode(b"x = 1\n", "x.py") != bytecode(b"x = True\n", "x.py")
    assert bytecode(b"x = (\n", "x.py") is None


PLAIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # starts sooner
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
def toy(tmp_path):
    """A project under git whose tests never look below the lower bound, and its driver."""
    root = tmp_path / "toy"
    root.mkdir()
    files = {"toy.py": SOURCE, "test_toy.py": TESTS, "program.c": C_SOURCE, "test_c.py": C_TESTS, "Makefile": MAKEFILE}
    for name, text in files.items():
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    copy = Workspace(root, tmp_path / "copy")
    copy.create()
    return Driver(root, [copy], lambda run, result: None)


def planted(driver, area, count=100):
    drawn = sample(driver.root, "toy", matching(driver.root, area.files), 1)
    return driver.run_area("toy", area, drawn, count, time.monotonic() + 60)


def test_a_survivor_is_reported_and_the_copy_left_clean(toy):
    run = planted(toy, Area(("toy.py",), ("./test_toy.py",), (), PLAIN))
    after = {(result.after, result.outcome) for result in run.results}
    assert ("return value <= high", "survived") in after  # the hole
    assert ("return low <= value", "caught") in after
    assert ("return low <= value < high", "caught") in after
    assert {result.by for result in run.results if result.outcome == "caught"} == {"test_toy.py::test_inside"}
    assert 0 < score(run.results) < 1
    assert (toy.workspaces[0].folder / "toy.py").read_text() == SOURCE


def test_equal_machine_code_and_what_does_not_build_do_not_count(toy):
    run = planted(toy, Area(("program.c",), ("./test_c.py",), ("build/program",), PLAIN))
    outcome = {(result.before, result.after): result.outcome for result in run.results}
    assert outcome["return (int64_t)count != 1;", "return count != 1;"] == "equivalent"
    assert outcome["return (int64_t)count != 1;", "return (int64_t)count == 1;"] == "caught"
    assert outcome["(void)names;", ";"] == "unbuildable"


def test_what_an_areas_tests_miss_is_put_to_wider_ones(toy):
    wider = "from toy import inside\n\n\ndef test_below():\n    assert not inside(1, 0, 2)\n"
    (toy.root / "test_wider.py").write_text(wider)
    (toy.workspaces[0].folder / "test_wider.py").write_text(wider)
    with (toy.workspaces[0].folder / "Makefile").open("a") as file:
        file.write("build:\n\tgrep -q 'low <= value <=' toy.py && echo clean >>made || echo faulty >>made\n")
        file.write("test-programs:\n")
    run = planted(toy, Area(("toy.py",), ("./test_toy.py",), (), PLAIN, ("./test_[tw]*.py",)))
    by = {(result.after, result.outcome): result.by for result in run.results}
    assert by["return value <= high", "caught"] == "test_wider.py::test_below"
    assert by["return low <= value", "caught"] == "test_toy.py::test_inside"
    made = (toy.workspaces[0].folder / "made").read_text().split()
    assert len(made) >= 3 and set(made[::2]) == {"clean"} and set(made[1::2]) == {"faulty"}


def test_the_whole_suite_may_be_what_is_asked_next_and_the_score_says_which_part_caught_how_much(toy):
    for place in (toy.root, toy.workspaces[0].folder):
        (place / "tests").mkdir()
        for name, line in (("test_below.py", "assert not inside(1, 0, 2)"), ("test_journeys.py", "assert False")):
            (place / "tests" / name).write_text(f"from toy import inside\n\n\ndef test_it():\n    {line}\n")
        (place / "Makefile").write_text("build test-programs:\n\ttrue\n")
    toy.wider = "suite"
    run = planted(toy, Area(("toy.py",), ("./test_toy.py",), (), PLAIN))
    own, every = score(run.results, "own"), score(run.results)
    assert 0 < own < every
    by = {(result.after, result.phase): result.by for result in run.results}
    assert by["return value <= high", "wider"] == "tests/test_below.py::test_it"  # never the slow file's, which fails
    assert by["return low <= value", "own"] == "test_toy.py::test_inside"
    shown = dict(zip(COLUMNS, cells(run.results), strict=True))
    counted = [int(shown[name]) for name in ("caught", "by wider", "survived")]
    assert sum(counted) + sum(int(shown[name]) for name in ("equivalent", "judged", "unbuildable")) == int(
        shown["planted"]
    )
    assert counted[1] >= 1 and shown["own"] == f"{own:.1%}" and shown["score"] == f"{every:.1%}"
    assert "the suite but its slow files" in str(score_table([run], described("suite")).title)


def test_tests_that_name_a_source_come_first_and_slow_ones_never(root):
    area = AREAS["bring-up"]
    first = own_tests(root, area, "scripts/bench/check_gpu.py")[0]
    assert first == "tests/bench/test_check_gpu.py"
    assert sorted(own_tests(root, area, "scripts/bench/host.py")) == sorted(named_tests(root, area.tests))
    parser = wider_tests(root, AREAS["sim-warp"], "simulator/ptx/parser.c", suite=True)
    assert parser[0].endswith("/test_parser.py")
    everything = {*parser, *named_tests(root, AREAS["sim-warp"].tests)}
    left = set(matching(root, ("tests/**/test_*.py",))) - everything
    assert {name.rpartition("/")[2] for name in left} == SLOW
    assert wider_tests(root, area, "scripts/bench/host.py", suite=False) == []


def test_failing_tests_are_a_problem_of_the_area(toy):
    (toy.workspaces[0].folder / "toy.py").write_text(SOURCE.replace("<=", "<"))
    run = planted(toy, Area(("toy.py",), ("./test_toy.py",), (), PLAIN))
    assert "fail before any fault" in run.problem and not run.results


def test_results_are_kept_between_runs(toy, tmp_path):
    area = Area(("toy.py",), ("./test_toy.py",), (), PLAIN)
    run = planted(toy, area, count=2)
    assert sum(result.outcome in {"caught", "survived"} for result in run.results) == 2
    write_results(tmp_path / "run.json", 1, [run])
    toy.known = read_results(tmp_path / "run.json")
    (toy.workspaces[0].folder / "test_toy.py").write_text("def test_nothing():\n    pass\n")  # all would survive now
    assert planted(toy, area, count=2).results == run.results


def test_the_sample_depends_on_the_seed_alone(root):
    files = ["scripts/mutate/report.py"]
    first = sample(root, "core", files, 1)
    assert first == sample(root, "core", files, 1)
    assert first != sample(root, "core", files, 2)
    assert sorted(first, key=repr) == sorted(sample(root, "core", files, 2), key=repr)
    lines = {fault.line for fault in first}
    assert {fault.line for fault in first[: len(lines)]} == lines  # a fault a line before the second of any


# Tests of what runs on a card, of the form of sources, and those that take long for what they would add.
NO_AREA = {
    "test_compare_sass.py",
    "test_torch_operator_cuda.py",
    "test_journeys.py",
    "test_eval_cuda.py",
    "test_fuzz.py",
    "test_fuzz_targets.py",
    "test_layers.py",
    "__init__.py",
}


def test_every_source_and_every_test_belongs_to_an_area(root):
    areas = AREAS.values()
    assert [name for area in areas for name in area.tests if not named_tests(root, (name,))] == []
    covered = {file for area in areas for file in (*matching(root, area.files), *named_tests(root, area.tests))}
    tops = ("submission", "simulator", "reference", "eval")
    patterns = (f"{top}/**/*{end}" for top in tops for end in (".[ch]", ".cu", ".cuh", ".py"))
    files = matching(root, (*patterns, "tests/**/test_*.py"))
    left = [file for file in files if file not in covered and not file.startswith("tests/house/")]
    assert [file for file in left if file.rpartition("/")[2] not in NO_AREA] == []


def test_judged_faults_are_still_there(root):
    for path, before, _ in judged():
        lines = " ".join((root / path).read_text().split())
        assert before in lines, (path, before)
