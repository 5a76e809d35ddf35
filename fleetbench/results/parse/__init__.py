"""Reading benchmark results: text reports and result JSON of any vLLM version, out of any captured text."""

from __future__ import annotations

import re

from fleetbench.errors import Unreadable, one_line
from fleetbench.results.parse.documents import (
    Document,
    block_of,
    log_line,
    looks_like_result,
    read_documents,
    results_in,
)
from fleetbench.results.parse.lines import clean, read_lines
from fleetbench.results.parse.text import Found, find_reports
from fleetbench.results.values import BenchResult, Block

__all__ = ["parse"]

_JSON_START = re.compile(r"[\s\ufeff]*[{\[]")
_OBJECT_START = re.compile(r"^[^\n{]{0,120}\{(?=\s*\")", re.MULTILINE)
_EXCEPTION = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception)\b.*", re.MULTILINE)
_MOST_EMBEDDED = 2000


def parse(text: str, source: str = "-") -> tuple[Block, ...]:
    """Given a captured text or the content of a result file, return every result block in it, in order.

    Detects JSON (object, list, JSON Lines, objects in a row, JSON logs that carry a text report) and text.
    `source` is a name for messages. A value that is missing is None; one that could not be read is None and
    named in the block's problems with its line. Raises `Unreadable`, with a reason, when there is no result.
    """
    if _JSON_START.match(text) and (blocks := _from_json(text, source)):
        return blocks
    found = find_reports(read_lines(text), source)
    if found.blocks:
        return _in_order(found)
    if embedded := _embedded(text, source):
        return embedded
    raise _unreadable(text, source, found)


def _from_json(text: str, source: str) -> tuple[Block, ...]:
    """Return the blocks of a JSON text; empty when it is no JSON after all, and may be a text report."""
    documents = list(read_documents(text))
    blocks = [block_of(value, doc, source) for doc in documents for value in results_in(doc.value)]
    broken = documents[-1] if documents and documents[-1].error else None
    if blocks:
        return (*blocks, _broken_block(broken, source)) if broken else tuple(blocks)
    lines = [line for doc in documents if (line := log_line(doc))]
    if lines:
        found = find_reports((part for line in lines for part in clean(line)), source)
        if found.blocks:
            return _in_order(found)
    if broken and len(documents) == 1 and "Benchmark Result" not in text and text.lstrip()[:1] == "{":
        raise Unreadable(
            f"{one_line(source)}: not a result",
            cause=broken.error,
            next_step="fetch the whole file again; the raw stdout of the run may still hold the report",
        )
    return ()


def _broken_block(document: Document, source: str) -> Block:
    return Block(
        source=source,
        dialect="vllm-json",
        first_line=document.first_line,
        last_line=document.last_line,
        result=BenchResult(),
        complete=False,
        problems=(document.error,),
    )


def _in_order(found: Found) -> tuple[Block, ...]:
    """All blocks, those without any measured value included: each says where it is and what is wrong."""
    return tuple(sorted([*found.blocks, *found.empty], key=lambda block: block.first_line))


def _embedded(text: str, source: str) -> tuple[Block, ...]:
    """Return result objects that stand inside another text: `cat result.json` in a job's log."""
    blocks: list[Block] = []
    counted, line, end = 0, 1, 0
    for tries, match in enumerate(_OBJECT_START.finditer(text)):
        start = match.end() - 1
        if start < end or tries > _MOST_EMBEDDED:
            continue
        line, counted = line + text.count("\n", counted, start), start
        document = next(read_documents(text, start, line))
        if isinstance(document.value, dict) and looks_like_result(document.value):
            blocks.append(block_of(document.value, document, source))
            end = document.end
    return tuple(blocks)


def _unreadable(text: str, source: str, found: Found) -> Unreadable:
    """Say why nothing was read, and what to do."""
    source = one_line(source)
    if found.empty:
        block = found.empty[0]
        more = f" (and {len(block.problems) - 3} more)" if len(block.problems) > 3 else ""
        return Unreadable(
            f"{source}: the report in line {block.first_line} holds no duration, throughput or latency",
            cause="; ".join(block.problems[:3]) + more,
            next_step="a template or a cut report is no result: give the client's whole output or its JSON",
        )
    if found.fragments:
        return Unreadable(
            f"{source}: no result",
            cause=f"line {found.fragments[0]}: report lines without the header "
            "'Serving Benchmark Result': a fragment, which could belong to any run",
            next_step="give the whole output of the client, or its result JSON",
        )
    exceptions = _EXCEPTION.findall(text[-200_000:])
    return Unreadable(
        f"{source}: no benchmark result in this text",
        cause=f"the client ended with {one_line(exceptions[-1], 200)}"
        if exceptions
        else ("the text is empty" if not text.strip() else "neither a report nor a result JSON is there"),
        next_step="give the stdout of `vllm bench serve`, or the file that --save-result wrote",
    )
