"""Markdown as HTML for the history page: CommonMark with tables, links mapped to the page's anchors."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

Resolve = Callable[[str], str | None]


class _Renderer(RendererHTML):
    """HTML for the page's style sheet: wide tables and code scroll, by keyboard too.

    A cell names its column, since a row is a card on narrow screens.
    """

    def table_open(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        env["columns"] = []
        return '<div class="scroll" tabindex="0"><table>\n'

    def table_close(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def tr_open(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        env["column"] = 0
        return "<tr>\n"

    def th_open(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        env["columns"].append(html.escape("".join(part.content for part in tokens[index + 1].children or ())))
        return f'<th scope="col"{_number(tokens[index])}>'

    def td_open(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        label, env["column"] = env["columns"][env["column"]], env["column"] + 1
        return f'<td{_number(tokens[index])} data-label="{label}"><div>'

    def td_close(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        return "</div></td>\n"

    def fence(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        return f'<pre class="scroll" tabindex="0">{html.escape(tokens[index].content.rstrip())}</pre>\n'


def _number(token: Token) -> str:
    """The class of a cell in a right-aligned column."""
    return ' class="n"' if "right" in str(token.attrGet("style")) else ""


def _linked(tokens: list[Token], resolve: Resolve) -> list[Token]:
    """Inline tokens with resolved targets; a link without one keeps its text, an image without one its description."""
    kept, open_links = [], []
    for token in tokens:
        if token.type == "link_open":
            target = resolve(str(token.attrGet("href")))
            open_links.append(target)
            token.attrs["href"] = target or ""
            kept += [token] if target else []
        elif token.type == "link_close":
            kept += [token] if open_links.pop() else []
        elif token.type == "image" and (target := resolve(str(token.attrGet("src")))) is None:
            kept.append(Token("text", "", 0, content=token.content))
        else:
            if token.type == "image":
                token.attrs["src"] = target
            kept.append(token)
    return kept


def _html(tokens: list[Token], resolve: Resolve, shift: int) -> str:
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + shift)}"
        if token.children:
            token.children = _linked(token.children, resolve)
    return _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}).rstrip("\n")


# A comment that has lines of its own takes them along; one at a line's end leaves the line's end.
_COMMENT = re.compile(r"^[ \t]*<!--(?:(?!-->).)*-->[ \t]*\n|[ \t]*<!--.*?-->", re.DOTALL | re.MULTILINE)
_MARKDOWN = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")


def render(text: str, resolve: Resolve, shift: int = 0) -> str:
    """HTML of a Markdown text; comments are dropped, headings move down by `shift` levels.

    `resolve` maps a link's target; None drops the link and keeps its text.
    """
    return _html(_MARKDOWN.parse(_COMMENT.sub("", text)), resolve, shift)


def inline(text: str, resolve: Resolve) -> str:
    """HTML of one line: code, emphasis, links."""
    return _html(_MARKDOWN.parseInline(text), resolve, 0)
