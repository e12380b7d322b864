"""The tables of the README and its sister pages show the committed measurements; their links lead to files."""

from __future__ import annotations

import json
import re
from statistics import geometric_mean

import pytest

from scripts.rounds.results import AMX_LEAST_ROWS, BLOCKS, PAGES, cpu_rows, group_hopper, hopper, render

MARKER = re.compile(r"<!-- generated:([\w-]+) -->")


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_current(root, page):
    text = (root / page).read_text()
    assert render(text) == text
    assert MARKER.findall(text) == re.findall(r"<!-- /generated:([\w-]+) -->", text)


def test_every_table_is_on_one_page(root):
    names = [name for page in PAGES for name in MARKER.findall((root / page).read_text())]
    assert sorted(names) == sorted(BLOCKS)


def test_an_altered_figure_is_noticed(root):
    text = (root / "README.md").read_text()
    ours = json.loads((root / BLOCKS["front"][0]).read_text())["median_us"]["auto"]
    mean = f"| dual GEMM | **{geometric_mean(ours.values()):.1f}** |"
    assert mean in text
    altered = text.replace(mean, "| dual GEMM | **12.3** |", 1)
    assert render(altered) != altered


def test_an_unknown_table_is_an_error():
    with pytest.raises(ValueError, match="nonsense"):
        render("<!-- generated:nonsense -->\n<!-- /generated:nonsense -->")


def test_the_front_page_is_short(root):
    assert len((root / "README.md").read_text().splitlines()) <= 150


def test_links_of_the_pages_lead_to_files(root):
    for page in (*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md", "ENVIRONMENT.md", "GLOSSARY.md", "eval/README.md"):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (root / page).read_text()):
            assert ((root / page).parent / link).exists(), f"{page}: {link}"


def test_ratios_are_geometric_means_over_shapes():
    data = {
        "chip": "C",
        "driver": "D",
        "commit": "0123456789",
        "median_us": {"auto": {"1x1x1": 10.0, "2x2x2": 20.0}, "triton": {"1x1x1": 40.0, "2x2x2": 20.0}},
    }
    assert "| 40.0 | 20.0 | 28.3 | 0.50 |" in hopper(data)
    data["median_us"]["cublas_groups"] = {"1x1x1": 20.0, "2x2x2": 40.0}
    assert "| 20.0 | 40.0 | 28.3 | 0.50 |" in group_hopper(data) and "28.3" not in hopper(data).split("Triton")[0]


def test_the_table_of_cpu_rows_switches_sets_where_the_backend_does(root):
    source = (root / "submission/cpu/kernels/tiles.h").read_text()
    assert f"BF16_LEAST_ROWS = {AMX_LEAST_ROWS}," in source


def test_cpu_rows_name_the_instruction_set_and_leave_untimed_cells_empty():
    ms = {"1x64x32": {"avx512": 2.0, "amx": 3.0}, "8x64x32": {"avx512": 5.0, "amx": 4.0}, "8x96x32": {"amx": 6.25}}
    paired = {"1x64x32": {"avx512": 0.2, "amx": 0.3}, "8x64x32": {"avx512": 0.5, "amx": 0.4}, "8x96x32": {"amx": 0.625}}
    of = {"chip": "a CPU", "versions": {"torch": "2"}, "rows_of_b_as_they_lie": {"ms": ms, "paired": paired}}
    text = cpu_rows(of)
    assert "| M | set | 64 x 32 | 96 x 32 |" in text
    assert "| 1 | AVX-512 | 2.0 (0.20) |  |" in text
    assert "| 8 | AMX | 4.0 (0.40) | 6.2 (0.62) |" in text
