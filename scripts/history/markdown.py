"""Markdown as HTML: CommonMark with tables, its links mapped to the history's pages."""

from __future__ import annotations

import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from markdown_it.token import Token

Resolve = Callable[[str], str | None]

# A comment that has lines of its own takes them along; one at a line's end leaves the line's end.
_COMMENT = re.compile(r"^[ \t]*<!--(?:(?!-->).)*-->[ \t]*\n|[ \t]*<!--.*?-->", re.DOTALL | re.MULTILINE)
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


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


def render(text: str, resolve: Resolve, shift: int = 0) -> str:
    """HTML of a Markdown text; comments are dropped, headings move down by `shift` levels.

    `resolve` maps a link's target; None drops the link and keeps its text.
    """
    tokens = _MARKDOWN.parse(_COMMENT.sub("", text))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + shift)}"
        if token.children:
            token.children = _linked(token.children, resolve)
    return _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}).rstrip("\n")
