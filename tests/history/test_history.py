"""The history page: self-contained and complete."""

import html
import re
from html.parser import HTMLParser

import pytest

from scripts.history import data as history_data
from scripts.history import markdown as history_markdown
from scripts.history import page as history_page
from scripts.history import site as history
from scripts.history import stories
from scripts.history.data import png_digest, series_digest, shape_series
from scripts.rounds import ledger
from scripts.rounds.model import Tank
from scripts.rounds.pages import tables
from tests.rounds.rounds_kit import ROOT, SHAPES, make_tank, measure_all

REPO = "https://example.org/repo"


@pytest.fixture(scope="module")
def empty_page(tmp_path_factory):
    """The page of a record with inherited rounds only."""
    tank = make_tank(tmp_path_factory.mktemp("empty") / "repo")
    return history.write_history(tank, tank.root / "build" / "history", None)


@pytest.fixture(scope="module")
def tank(tmp_path_factory):
    return measure_all(make_tank(tmp_path_factory.mktemp("full") / "repo"))


@pytest.fixture(scope="module")
def full_page(tank):
    return history.write_history(tank, tank.root / "build" / "history", REPO)


@pytest.fixture(scope="module")
def own_page(tmp_path_factory):
    """The first page of this repository."""
    return history.write_history(Tank(ROOT), tmp_path_factory.mktemp("own"), REPO)


@pytest.fixture(params=["empty", "full", "own"])
def page(request):
    """The first page of each record in turn."""
    return request.getfixturevalue(f"{request.param}_page")


def chapter(page, name="hopper-dual-gemm.html"):
    """The text of another page beside the first."""
    return (page.parent / name).read_text()


# --- content ----------------------------------------------------------------------------------------------
class Checker(HTMLParser):
    """Collects ids, references and the balance of tags."""

    VOID = frozenset({"meta", "link", "br", "img", "hr", "path", "use", "circle"})

    def __init__(self):
        super().__init__()
        self.ids, self.refs, self.pages, self.external, self.open, self.unbalanced = [], [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "xlink:href", "src") and (value or "").startswith("#"):
                self.refs.append(value[1:])
            elif tag == "a" and name == "href" and not (value or "").startswith("http"):
                self.pages.append(value)
            elif name in ("src", "srcset", "data") or (name == "href" and tag != "a"):
                self.external += [] if (value or "").startswith("data:") else [(tag, value)]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)


def test_page_is_well_formed_and_needs_nothing_else(page):
    ids, refs = {}, set()
    for path in page.parent.glob("*.html"):
        text = path.read_text()
        checker = Checker()
        checker.feed(text)
        assert checker.unbalanced == [] and checker.open == []
        assert checker.external == []
        assert not re.search(r"@import|<script|url\((?!#|data:)", text)
        assert len(checker.ids) == len(set(checker.ids))
        assert set(checker.refs) <= set(checker.ids)
        ids[path.name] = set(checker.ids)
        refs |= {tuple((target + "#").split("#")[:2]) for target in checker.pages}
    assert all(name in ids and (not place or place in ids[name]) for name, place in refs)
    assert page.stat().st_size < 300_000


def test_the_page_has_each_rounds_tables_of_prediction_and_measurement(tank, full_page):
    text = chapter(full_page)
    details = text[text.index('id="round-0005"') : text.index('id="round-0006"')]
    for shape, entry in tank.get(5)["measurement"]["shapes"].items():
        assert f"<td>{shape.replace('x', ' ')}</td>" in details
        assert f"{entry['ratio']:.4f} [{entry['low']:.4f}, {entry['high']:.4f}]" in details
    assert "0.850 to 0.950, inside" in details


def test_page_has_viewport_language_and_both_colour_schemes(page):
    text = page.read_text()
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert '<html lang="en">' in text and "prefers-color-scheme: dark" in text


def test_without_measurements_the_pages_say_so(empty_page):
    assert "No round of ours has been measured yet." in empty_page.read_text()
    inherited = chapter(empty_page, "published-by-others-before-this-project.html")
    assert "0001 More pipeline stages (rejected)" in inherited


def test_plotted_times_are_those_of_the_record(tank):
    series = shape_series(tank, tank.all())
    assert [one.shape for one in series] == SHAPES
    for one in series:
        assert [number for number, *_ in one.rounds] == [4, 5, 6, 7]
        for number, verdict, us, _ in one.rounds:
            data = tank.get(number)
            assert us == data["measurement"]["shapes"][one.shape]["candidate_us"]
            assert verdict == data["verdict"]["state"]
        assert [leads for *_, leads in one.rounds] == [True, True, False, False]


def test_a_baseline_that_was_not_timed_at_a_shape_has_no_line_there(tank, monkeypatch):
    timed = {"cublas": {SHAPES[0]: 20.0}}
    monkeypatch.setattr(history_data, "BASELINES", {"cublas": "cuBLAS"})
    monkeypatch.setattr(tables, "latest_baselines", lambda *of: timed)
    series = shape_series(tank, tank.all())
    assert [one.baselines for one in series] == [{"cuBLAS": 20.0}, *({} for _ in SHAPES[1:])]


def test_png_names_the_data_it_shows(tank, tmp_path):
    path = tmp_path / "progress.png"
    assert history.write_progress(tank, path)
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert png_digest(path) == series_digest(shape_series(tank, tank.all()))
    assert not history.write_progress(tank, path)


def test_main_writes_the_page_and_the_committed_plot(tank, tmp_path, capsys):
    (tank.dir / "progress.png").unlink()
    assert history.main(["--root", str(tank.root), "--out", str(tmp_path)]) == 0
    assert (tank.dir / "progress.png").is_file() and (tmp_path / "index.html").is_file()
    assert "commit it" in capsys.readouterr().out


def test_this_repository_renders(own_page):
    pages = {path.name: path.read_text() for path in own_page.parent.glob("*.html")}
    for data in Tank(ROOT).all():
        assert f'id="round-{data["number"]:04d}"' in pages[history_page.slug(tables.chapter(data))]
    text, data = chapter(own_page), Tank(ROOT).get(24)
    assert f"{REPO}/compare/{data['base']['commit']}...{data['candidate']['commit']}" in text
    assert f"git diff {data['base']['commit'][:9]} {data['candidate']['commit'][:9]} -- submission/" in text
    assert "13 % faster at 256 3072 4096, three level" in text


def test_the_page_leads_with_the_number_of_the_results(own_page):
    head, steps = ledger.headline(Tank(ROOT)), ledger.load(Tank(ROOT))
    results, text = (ROOT / "shark_tank" / "RESULTS.md").read_text(), own_page.read_text()
    assert f"<strong>{head['us']:.1f} us</strong>" in text and f"<strong>{steps.first_us:.1f} us</strong>" in text
    assert f"| {head['us']:.1f} | 1.00 |" in results
    # Later runs of other shapes do not hide the baseline at the benchmark's.
    baseline = tables.latest_baselines(Tank(ROOT), Tank(ROOT).all(), "hopper")["cublas_one_gemm"]
    assert baseline.keys() >= {"256x4096x7168", "512x4096x7168", "256x3072x4096", "512x3072x7168"}
    assert f"<strong>{head['of_cublas']:.3f}</strong>" in text and f"| {head['of_cublas']:.2f} |" in results


def test_every_problem_has_a_story(own_page):
    text = own_page.read_text()
    told = stories.load(Tank(ROOT))
    assert {one.told["id"] for one in told} >= {
        "dual-gemm",
        "grouped-gemm",
        "gemm",
        "gemv",
        "blackwell",
        "geforce",
        "cpu",
    }
    for one in told:
        assert f'<h2 id="{one.told["id"]}">' in text
        assert all(f"{step.number:04d} {step.words}" in html.unescape(text) for step in one.steps)
        assert 4 <= len(re.findall(r"[.](?:\s|$)", one.told["words"])) <= 6
    assert stories.problems(Tank(ROOT)) == []


def test_a_chain_multiplies_each_shapes_ratios_from_the_first_base_on():
    def measured(**shapes):
        return {"measurement": {"shapes": {k: {"base_us": b, "ratio": r} for k, (b, r) in shapes.items()}}}

    rounds = {1: measured(a=(40.0, 0.5), b=(10.0, 1.0), c=(1.0, 0.1)), 2: measured(b=(12.0, 0.25))}
    told = {"shapes": ["a", "b"], "steps": [{"round": 1, "words": "one"}, {"round": 2, "words": "two"}]}
    first, second = stories._chain(rounds, told)
    # a: 40, 20, 20; b: 10, 10, 2.5; the means are sqrt(400), sqrt(200), sqrt(50)
    assert (first.before_us, first.after_us) == pytest.approx((20.0, 200**0.5))
    assert (second.before_us, second.after_us) == pytest.approx((200**0.5, 50**0.5))
    assert second.ratio == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("a < b & `c<d>`", "<p>a &lt; b &amp; <code>c&lt;d&gt;</code></p>"),
        ("**bold** and *soft*, 2 * 3 * 4", "<p><strong>bold</strong> and <em>soft</em>, 2 * 3 * 4</p>"),
        ("[here](rounds/0003-x/round.md)", '<p><a href="inherited.html#round-0003">here</a></p>'),
        ("[there](../eval/eval.py)", "<p>there</p>"),
        ("# Title\nText", "<h1>Title</h1>\n<p>Text</p>"),
        ("- a <!-- b -->\n- c", "<ul>\n<li>a</li>\n<li>c</li>\n</ul>"),
        ("a\n<!-- b -->\nc <!-- d -->\ne", "<p>a\nc\ne</p>"),
        ("- a\n  b\n- c", "<ul>\n<li>a\nb</li>\n<li>c</li>\n</ul>"),
        ("![curve](https://x.org/a.png)", '<p><img src="https://x.org/a.png" alt="curve" /></p>'),
        ("![curve](progress.png)", "<p>curve</p>"),
        ("[<b>](javascript:x)", "<p>[&lt;b&gt;](javascript:x)</p>"),
        ("```\na\n\nb < c\n```", "<pre><code>a\n\nb &lt; c\n</code></pre>"),
        ("<!-- generated:x -->\ntext", "<p>text</p>"),
    ],
)
def test_markdown(markdown, expected):
    assert (
        history_markdown.render(markdown, history_page.resolver(None, "shark_tank", {"0003": "inherited.html"}))
        == expected
    )


def test_headings_move_down_to_the_sixth_level_at_most():
    assert history_markdown.render("# a\n\n##### b", str, shift=2) == "<h3>a</h3>\n<h6>b</h6>"
