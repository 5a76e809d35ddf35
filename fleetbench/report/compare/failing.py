"""`--fail-on`: which limits there are, and which comparisons break them beyond noise. Pure.

A regression is claimed where a whole interval of 95 % lies beyond the limit, and where that is no chance find
among all the comparisons that were looked at: by Benjamini and Hochberg's procedure (Journal of the Royal
Statistical Society B 57, 1995) on one-sided probabilities, so that of 100 comparisons of equal things,
however many rows and metrics they have, at most 3 fail. What is neither claimed nor excluded is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fleetbench.errors import UsageError, one_line
from fleetbench.report.compare.compared import Compared, Row
from fleetbench.report.compare.figures import ALL, Figure, compared_as
from fleetbench.report.compare.pairs import Subject, Unpaired, brief_names
from fleetbench.report.entry import Entry
from fleetbench.report.metrics import METRICS, Metric
from fleetbench.results.comparison import RESTART_PERCENT
from fleetbench.results.statistics import CONFIDENCE

REGRESSION = "regression"
FALSE_CLAIMS = (1 - CONFIDENCE) / 2  # one-sided: what is claimed is never within its interval
_RULE = re.compile(r"\s*([A-Za-z0-9_]{1,60})\s*:\s*(\d{1,3}(?:\.\d{1,4})?)\s*%?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A limit in percent: of one metric, or of each headline (`metric` None) that has none of its own."""

    percent: float
    metric: Metric | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or not known to be right: where (rows), what is said."""

    row: str
    metric: str
    text: str

    @property
    def sentence(self) -> str:
        """Both, for people."""
        return f"{self.row}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the rules say. `judged`: comparisons and lost rows that were looked at."""

    regressions: tuple[Finding, ...] = ()
    unclear: tuple[Finding, ...] = ()
    judged: int = 0

    def failed(self, *, strict: bool = False) -> bool:
        """Whether the exit status says so; `strict`: also for what could not be ruled out."""
        return bool(self.regressions or (strict and self.unclear))


@dataclass(frozen=True, slots=True)
class _Test:
    row: str
    figure: Figure
    percent: float
    chance: float


def read_rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """Given `regression:3%` or `p99_ttft_ms:5%,output_throughput:2%`, return the rules.

    UsageError, with what may be meant, where it is none.
    """
    found: list[Rule] = []
    for text in (part for whole in texts for part in whole.split(",")):
        match = _RULE.fullmatch(text)
        if match is None:
            raise UsageError(
                f"--fail-on {one_line(text, 60)!r} is no limit",
                next_step="regression:3%, or a metric: p99_ttft_ms:5%, output_throughput:2%",
            )
        percent = float(match[2])
        if not 0 <= percent < 100:
            raise UsageError(f"--fail-on {one_line(text, 60)!r}: a limit is at least 0 % and below 100 %")
        name = match[1].lower()
        found.append(Rule(percent=percent, metric=None if name == REGRESSION else metric_named(name)))
    return tuple(found)


def metric_named(name: str) -> Metric:
    """Return a metric by its key, whose words may stand in any order (`ttft_p99_ms`, `ttft_p99`); else
    UsageError."""
    import difflib

    wanted = sorted(name.lower().replace("-", "_").split("_"))
    for metric in ALL:
        if sorted(metric.key.split("_")) in (wanted, sorted([*wanted, "ms"])):
            return metric
    keys = [metric.key for metric in ALL]
    near = difflib.get_close_matches(name.lower()[:60], [*keys, REGRESSION], n=3, cutoff=0.5)
    raise UsageError(
        f"there is no metric {one_line(name, 60)!r}",
        next_step=f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(keys)}",
    )


def judged(compared: Sequence[Compared], rules: Sequence[Rule]) -> Outcome:
    """Return what rules say of all comparisons together."""
    lost: list[Finding] = []
    unclear: list[Finding] = []
    tests: list[_Test] = []
    for one in compared:
        where = f"{one.other.label}, " if len(compared) > 1 else ""
        for unpaired in one.missing:
            if unpaired.subject.entry.valid:
                gone = not unpaired.why and all(subject.over for subject in one.other.subjects)
                (lost if gone else unclear).append(_missing(unpaired, where))
        names = brief_names([row.pair for row in one.rows])
        for row in one.rows:
            name = f"{where}{names[row.pair]}"
            if not row.pair.baseline.entry.valid:
                continue
            for subject, finding in _lost(row, name):
                (lost if subject.over else unclear).append(finding)
            if row.pair.other.entry.valid:
                for item in _tests(row, name, limits(rules, per_gpu=one.per_gpu)):
                    (tests if isinstance(item, _Test) else unclear).append(item)  # type: ignore[arg-type]
    looked_at = len(tests) + len(lost) + len(unclear)
    claimed = _claimed(tests)
    for test in tests:
        finding = _worse(test)
        if test in claimed and not _may_be_the_start(test):
            lost.append(finding)
        elif not _excluded(test):
            unclear.append(finding if test in claimed else _open(test))
    return Outcome(regressions=tuple(lost), unclear=tuple(unclear), judged=looked_at)


def _missing(unpaired: Unpaired, where: str) -> Finding:
    text = f"was valid, and is not there{f': {unpaired.why}' if unpaired.why else ''}"
    return Finding(row=f"{where}{unpaired.name}", metric="", text=text)


def limits(rules: Iterable[Rule], *, per_gpu: bool = False) -> dict[str, float]:
    """Return the limit of each metric that has one; the metric's own counts before that of all headlines.

    UsageError as of `compared_as`.
    """
    found: dict[str, float] = {}
    for rule in rules:
        if rule.metric is None:
            for metric in METRICS:
                if metric.headline:
                    found.setdefault(compared_as(metric, per_gpu=per_gpu).key, rule.percent)
    own = {
        compared_as(rule.metric, per_gpu=per_gpu).key: rule.percent
        for rule in rules
        if rule.metric is not None
    }
    return found | own


def _lost(row: Row, name: str) -> Iterator[tuple[Subject, Finding]]:
    """Yield what was valid and is not any more, a start of several included, and which one it is."""
    now = row.pair.other
    bad = _bad_starts(now)
    if not now.entry.valid:
        yield now, Finding(row=name, metric="", text=f"was valid, now {_status(now.entry)}")
    elif bad and not _bad_starts(row.pair.baseline):
        text = f"one of its starts is {_status(bad[0].entry)}"
        yield bad[0], Finding(row=name, metric="", text=text)


def _bad_starts(of: Subject) -> list[Subject]:
    """Return the other starts of the same run that are not valid, those that nothing will change first."""
    starts = (other for other in of.beside if other.entry.source == of.entry.source)
    return sorted((other for other in starts if not other.entry.valid), key=lambda other: not other.over)


def _status(entry: Entry) -> str:
    return f"{entry.status.value}: {one_line(entry.cause, 160)}" if entry.cause else entry.status.value


def _tests(row: Row, name: str, of: dict[str, float]) -> Iterator[_Test | Finding]:
    there = {figure.metric.key: figure for figure in row.figures}
    for key, percent in of.items():
        figure = there.get(key)
        if figure is None:
            one, two = row.pair.baseline.entry, row.pair.other.entry
            if key in one.values and key not in two.values:
                yield Finding(row=name, metric=key, text=f"{key} is not known any more")
            continue
        found = figure.comparison
        bound = _bound(figure.metric, percent)
        chance = found.chance(bound, above=not figure.metric.higher_is_better) if found else None
        if found is None and figure.baseline == figure.other:  # nothing, on both sides
            chance = 1.0
        if chance is None:
            text = f"{figure.metric.title}: {figure.sentence}, so {percent:g} % worse cannot be ruled out"
            yield Finding(row=name, metric=key, text=text)
        else:
            yield _Test(name, figure, percent, chance)


def _bound(metric: Metric, percent: float) -> float:
    """Return the ratio from which it is a regression: 0.97 of a throughput, 1.03 of a latency at 3 %."""
    return 1 - percent / 100 if metric.higher_is_better else 1 + percent / 100


def _claimed(tests: Sequence[_Test]) -> frozenset[_Test]:
    """Return the tests that show a regression: Benjamini and Hochberg's step-up procedure."""
    ordered = sorted(tests, key=lambda test: test.chance)
    passing = [
        rank
        for rank, test in enumerate(ordered, start=1)
        if test.chance <= FALSE_CLAIMS * rank / len(ordered)
    ]
    return frozenset(ordered[: max(passing, default=0)])


def _may_be_the_start(test: _Test) -> bool:
    return test.figure.comparison is not None and test.figure.comparison.within_a_start


def _excluded(test: _Test) -> bool:
    """Whether the interval leaves no room for a regression."""
    found, bound = test.figure.comparison, _bound(test.figure.metric, test.percent)
    if found is None:
        return test.figure.baseline == test.figure.other
    if found.low is None or found.high is None:
        return False
    return found.low >= bound if test.figure.metric.higher_is_better else found.high <= bound


def _worse(test: _Test) -> Finding:
    start = f", within the {RESTART_PERCENT:g} % that another start may differ by" * _may_be_the_start(test)
    text = f"{test.figure.metric.title} {test.figure.sentence}, limit {test.percent:g} %{start}"
    return Finding(row=test.row, metric=test.figure.metric.key, text=text)


def _open(test: _Test) -> Finding:
    text = (
        f"{test.figure.metric.title}: {test.percent:g} % worse cannot be ruled out ({test.figure.sentence})"
    )
    return Finding(row=test.row, metric=test.figure.metric.key, text=text)
