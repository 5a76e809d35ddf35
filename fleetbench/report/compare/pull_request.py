"""A comparison as Markdown, for a comment on a pull request. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fleetbench.report.columns import Table
from fleetbench.report.compare.text import Block, Heading
from fleetbench.report.markdown import escaped, table


def markdown(blocks: Iterable[Block]) -> str:
    """Return the blocks of a comparison as text that any forge renders, whatever names are in it."""
    parts: list[str] = []
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"### {escaped(block.text)}")
        elif isinstance(block, Table):
            parts.append(table(block.columns, block.rows))
        elif block.texts:
            parts.append("\n".join(f"- {escaped(text)}" for text in block.texts))
    return "\n\n".join(parts) + "\n"
