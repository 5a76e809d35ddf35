"""What the bench client prints about a run before its report: parameters, and the progress bar.

vLLM's report does not say how many requests were meant, and before 0.11.1 not how many failed; the
`Namespace(…)` line and the bar's total do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.results.parse.labels import label_table
from fleetbench.results.parse.numbers import read_number

_NAMESPACE = re.compile(r"\bNamespace\(")
_ARGUMENT = re.compile(
    r"[(,] ?(num_prompts|model|backend|endpoint_type|request_rate|max_concurrency)="
    r"('[^'\n]{0,300}'|[^,)'\n]{1,60})(?=[,)])"
)
_BAR = re.compile(r"\s*\d{1,3}%\|[^|]{0,400}\| *(\d{1,12})/(\d{1,12}) \[")
_STATED = re.compile(r"\s*(Traffic request rate|Maximum request concurrency): *(\S{1,30})\s*$")
# Lines that only a new run prints: a report still open before them was cut off.
_NEW_RUN = re.compile(
    r"\s*(?:[\w.]*Namespace\(|Starting initial single prompt test run|Initial test run completed)"
)


@dataclass(slots=True)
class Preamble:
    """Parameters of the run whose report comes next; None where nothing was said."""

    num_prompts: int | None = None
    attempted: int | None = None
    model_id: str | None = None
    backend: str | None = None
    request_rate: float | str | None = None
    max_concurrency: int | None = None

    def observe(self, text: str) -> None:
        """Take in one line that stands before a report."""
        if bar := _BAR.match(text):
            self.attempted = int(bar[2])
        elif stated := _STATED.match(text):
            self._set("request_rate" if stated[1].startswith("Traffic") else "max_concurrency", stated[2])
        elif _NAMESPACE.search(text):
            self.num_prompts = self.attempted = self.model_id = self.backend = None
            self.request_rate = self.max_concurrency = None
            for name, value in _ARGUMENT.findall(text):
                self._set(name, value)

    def requests(self, completed: int | None) -> int | None:
        """Return the number of requests meant, unless it contradicts the report's own count."""
        number = self.num_prompts if self.num_prompts is not None else self.attempted
        return None if number is None or (completed is not None and number < completed) else number

    def _set(self, name: str, shown: str) -> None:
        value = shown.strip("'")
        if value.lower() in label_table().unset_words:
            return
        if name == "model":
            self.model_id = one_line(value, 200)
        elif name in ("backend", "endpoint_type"):
            # 0.8.5 to 0.10.2 route by endpoint_type, printed before backend; later it is None.
            self.backend = self.backend or one_line(value, 60)
        elif name == "request_rate":
            self.request_rate = read_rate(value)
        else:
            number = read_number(value, whole=True).value
            setattr(self, name, number if number is None else int(number))


def read_rate(text: str) -> float | str | None:
    """Given a request rate as printed, return requests/s, `"inf"` for all at once, or None."""
    if text.strip().lower() == "inf":
        return "inf"
    number = read_number(text).value
    return None if number is None else float(number)


def begins_a_run(text: str) -> bool:
    """True for a line that only the start of another run prints."""
    return _NEW_RUN.match(text) is not None
