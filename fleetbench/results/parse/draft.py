"""One report while it is being read: values found, lines refused, and the finished block."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from fleetbench.errors import one_line
from fleetbench.results.parse.labels import Label, label_table
from fleetbench.results.parse.numbers import Reading, read_number
from fleetbench.results.parse.preamble import Preamble
from fleetbench.results.values import BenchResult, Block, Number

_LATENCY_KEY = re.compile(r"(?:mean|median|std|min|max|p\d{1,3}(?:\.\d{1,3})?)_(?:\w+)_ms")
_OWN_FIELDS = frozenset(f.name for f in fields(BenchResult)) - {"latencies", "extra"}
# Without one of these a block says nothing about speed: a template, or a report cut after its first lines.
_MEASURED = ("duration", "request_throughput", "output_throughput", "total_token_throughput")
_MOST_PROBLEMS = 40


@dataclass(slots=True, kw_only=True)
class Draft:
    """A report being read. `values` holds what was read under its JSON key, with the line it came from."""

    first_line: int
    last_line: int = 0
    dialect: str = "vllm"
    ended: bool = False
    pooling: bool = False
    values: dict[str, tuple[Number | str, int]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def problem(self, line: int, text: str) -> None:
        """Note what could not be read; a hostile file must not fill the memory with complaints."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(f"line {line}: {text}")

    def take(self, label: Label, text: str, line: int, *, section: str = "") -> None:
        """Read the value of one labelled line and keep it, or note why not."""
        self.last_line = max(self.last_line, line)
        if label.dialect:
            self.dialect = label.dialect
        if label.kind in ("heading", "note"):
            return
        key = f"{section}_{label.key}" if section else label.key
        value = text.strip()
        if label.kind == "word":
            self.keep(key, one_line(value, 60), line, label.text)
        elif label.kind in ("limit", "rate") and value.lower() in label_table().unset_words:
            self.refused.add(key)  # said to be unset: nothing before the report may fill it in
        elif label.kind == "rate" and value.lower() == "inf":
            self.keep(key, "inf", line, label.text)
        else:
            self.keep_reading(
                key, read_number(value, whole=label.kind in ("count", "limit")), line, label.text
            )

    def keep_reading(self, key: str, reading: Reading, line: int, shown: str) -> None:
        """Keep a number, or note why there is none."""
        if reading.value is None:
            self.refuse(key, line, f"{shown}: {reading.reason}")
        else:
            self.keep(key, reading.value, line, shown)

    def keep(self, key: str, value: Number | str, line: int, shown: str) -> None:
        """Keep a value; a second, different one for the same key makes both unknown."""
        earlier = self.values.get(key)
        if earlier is not None and earlier[0] != value:
            self.refuse(key, line, f"{shown}: {value} here, but {earlier[0]} in line {earlier[1]}")
        elif key not in self.refused:
            self.values[key] = (value, line)

    def refuse(self, key: str, line: int, reason: str) -> None:
        """Make a key unknown, and say why."""
        self.values.pop(key, None)
        self.refused.add(key)
        self.problem(line, reason)

    @property
    def measured(self) -> bool:
        """True when at least one speed or latency is a number."""
        return any(key in self.values for key in _MEASURED) or any(map(_LATENCY_KEY.fullmatch, self.values))

    def block(self, source: str, preamble: Preamble | None = None) -> Block:
        """Return the finished block; `preamble` fills in what only the lines before the report say."""
        values: dict[str, Any] = {key: value for key, (value, _) in self.values.items()}
        if preamble is not None:
            self._complement(values, preamble)
        table = label_table()
        needed = [key for key in table.needed if not (self.pooling and key in table.generation_only)]
        return Block(
            source=source,
            dialect=self.dialect,
            first_line=self.first_line,
            last_line=max(self.first_line, self.last_line),
            result=_result(values),
            complete=self.ended and all(isinstance(values.get(key), int | float) for key in needed),
            problems=tuple(self.problems),
        )

    def _complement(self, values: dict[str, Any], preamble: Preamble) -> None:
        said = {
            "num_prompts": preamble.requests(values.get("completed")),
            "model_id": preamble.model_id,
            "backend": preamble.backend,
            "request_rate": preamble.request_rate,
            "max_concurrency": preamble.max_concurrency,
        }
        for key, value in said.items():
            if value is not None and key not in values and key not in self.refused:
                values[key] = value


def _result(values: Mapping[str, Any]) -> BenchResult:
    own = {key: value for key, value in values.items() if key in _OWN_FIELDS}
    numbers = {k: v for k, v in values.items() if k not in own and isinstance(v, int | float)}
    latencies = {key: float(value) for key, value in numbers.items() if is_latency(key)}
    extra = {key: value for key, value in numbers.items() if key not in latencies}
    return BenchResult(**own, latencies=MappingProxyType(latencies), extra=MappingProxyType(extra))


def is_latency(key: str) -> bool:
    """True for `mean_ttft_ms`, `p99.9_e2el_ms` and the like; not for `probe_p99_e2el_ms`."""
    return _LATENCY_KEY.fullmatch(key) is not None
