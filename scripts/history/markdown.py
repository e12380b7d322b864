"""The little Markdown that the rounds use, as HTML: headings, paragraphs, lists, tables, fences, inline marks."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

Resolve = Callable[[str], str | None]

_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<bold>.+?)\*\*|(?<![\w*])\*(?P<em>[^*\s][^*]*)\*(?!\w)"
    r"|\[(?P<text>(?:[^\[\]]|\[[^\]]*\])+)\]\((?P<url>[^)\s]+)\)|<(?P<auto>https?://[^>]+)>"
)


def inline(text: str, resolve: Resolve) -> str:
    """One line: code, bold, emphasis, links. `resolve` maps a link's target; None drops the link, keeps its text."""
    out, at = [], 0
    for match in _INLINE.finditer(text):
        out.append(html.escape(text[at : match.start()]))
        at = match.end()
        if match["code"] is not None:
            out.append(f"<code>{html.escape(match['code'])}</code>")
        elif match["bold"] is not None:
            out.append(f"<strong>{inline(match['bold'], resolve)}</strong>")
        elif match["em"] is not None:
            out.append(f"<em>{inline(match['em'], resolve)}</em>")
        else:
            label = match["text"] if match["text"] is not None else match["auto"]
            target = resolve(match["url"] or match["auto"])
            shown = inline(label, resolve) if match["text"] is not None else html.escape(label)
            out.append(f'<a href="{html.escape(target)}">{shown}</a>' if target else shown)
    out.append(html.escape(text[at:]))
    return "".join(out)


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def _table(lines: list[str], resolve: Resolve) -> str:
    head, rule, *body = (_cells(line) for line in lines)
    marks = [' class="n"' if mark.endswith(":") else "" for mark in rule]

    def row(cells: list[str], tag: str) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        # The div bounds a cell's width, which a table cell itself does not.
        wrap = ("<div>", "</div>") if tag == "td" else ("", "")
        return "".join(
            f"<{tag}{scope}{mark}>{wrap[0]}{inline(cell, resolve)}{wrap[1]}</{tag}>"
            for cell, mark in zip(cells, marks, strict=True)
        )

    rows = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in body)
    # Focusable, so that a keyboard can scroll it.
    head_row = f"<thead><tr>{row(head, 'th')}</tr></thead>"
    return f'<div class="scroll" tabindex="0"><table>{head_row}<tbody>{rows}</tbody></table></div>'


def _list(lines: list[str], resolve: Resolve) -> str:
    items: list[str] = []
    for line in lines:
        if line.startswith("- "):
            items.append(line[2:])
        else:
            items[-1] += " " + line.strip()
    return "<ul>" + "".join(f"<li>{inline(item, resolve)}</li>" for item in items) + "</ul>"


def render(text: str, resolve: Resolve, shift: int = 0) -> str:
    """HTML of a Markdown text; comments are dropped, headings move down by `shift` levels."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    out = []
    for chunk in re.split(r"\n\s*\n", _protect_fences(text).strip("\n")):
        lines = chunk.strip("\n").splitlines()
        if not lines:
            continue
        heading = re.match(r"(#+) (.*)", lines[0])
        if heading:
            level = min(6, len(heading[1]) + shift)
            out.append(f"<h{level}>{inline(heading[2], resolve)}</h{level}>")
            lines = lines[1:]
            if not lines:
                continue
        if lines[0].startswith("```"):
            body = "\n".join(line.removeprefix(_BLANK) for line in lines[1:-1])
            out.append(f'<pre class="scroll" tabindex="0">{html.escape(body)}</pre>')
        elif lines[0].startswith("|"):
            out.append(_table(lines, resolve))
        elif lines[0].startswith("- "):
            out.append(_list(lines, resolve))
        else:
            out.append(f"<p>{inline(' '.join(lines), resolve)}</p>")
    return "\n".join(out)


_BLANK = "\0"


def _protect_fences(text: str) -> str:
    """Mark blank lines inside code fences, so that they do not end the chunk."""
    return re.sub(
        r"^```.*?^```", lambda m: m.group().replace("\n\n", f"\n{_BLANK}\n"), text, flags=re.DOTALL | re.MULTILINE
    )
