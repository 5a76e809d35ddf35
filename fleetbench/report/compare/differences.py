"""What two sides differ in, and whether they are one population: said before any ratio. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fleetbench.errors import one_line
from fleetbench.report.compare.conditions import ASPECTS, PACKAGE, Aspect, Value, Values
from fleetbench.report.compare.pairs import Pair, brief_names

NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One aspect in which pairs differ.

    Attributes:
        key: of `ASPECTS`, or `package NAME`.
        one, other: what the baseline and the other side have; `not known` where only one side says it.
        matters: they are other populations, and nobody asked for that. asked: somebody did.
        pairs: which pairs it is about; empty: all of them.
    """

    key: str
    title: str
    one: str
    other: str
    matters: bool = False
    asked: bool = False
    pairs: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The difference as a clause: `concurrency 64 against 8`."""
        return f"{self.title} {self.one} against {self.other}"


def differences(
    pairs: Sequence[Pair],
    told: tuple[Collection[str], Collection[str]] = ((), ()),
    accepted: Collection[str] = (),
) -> tuple[Difference, ...]:
    """Return what the pairs differ in, what matters first.

    `told` are the fields that the selector of each side names: what both name is what is compared by.
    `accepted` are keys of aspects that do not matter to what is compared.
    """
    found: list[Difference] = []
    pairs = _measured(pairs)
    labels = brief_names(pairs)
    for key in _keys(pairs):
        aspect = ASPECTS.get(key) or Aspect(title=key.removeprefix(PACKAGE))
        about: dict[tuple[str, str], list[str]] = {}
        for pair in pairs:
            if _settled(pair, key):
                continue
            if (shown := _apart(aspect, *_values(pair, key))) is not None:
                about.setdefault(shown, []).append(labels[pair])
        for (one, other), names in about.items():
            known = NOT_KNOWN not in (one, other)
            asked = key in accepted or all(set(aspect.told) & set(names_of) for names_of in told)
            found.append(
                Difference(
                    key=key,
                    title=aspect.title,
                    one=one,
                    other=other,
                    matters=aspect.matters and known and not asked,
                    asked=aspect.matters and known and asked,
                    pairs=() if len(names) == len(pairs) else tuple(names),
                )
            )
    return tuple(sorted(found, key=lambda each: (not each.matters, not each.asked)))


def not_known(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return the titles of what matters and is known of neither side in any pair."""
    pairs = _measured(pairs)
    return tuple(
        aspect.title
        for key, aspect in ASPECTS.items()
        if aspect.matters
        and not aspect.instead_of
        and pairs
        and not any(any(v != "" for v in _values(pair, key)) for pair in pairs)
    )


def caveats(found: Iterable[Difference]) -> tuple[str, ...]:
    """Return what each ratio is said with: the titles of what matters, each once."""
    return tuple(dict.fromkeys(each.title for each in found if each.matters))


def _measured(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the pairs that have ratios, if there are any: of what never ran little is known."""
    both = (pair for pair in pairs if pair.baseline.entry.values and pair.other.entry.values)
    return tuple(both) or tuple(pairs)


def _keys(pairs: Iterable[Pair]) -> list[str]:
    there = {name for pair in pairs for side in (pair.baseline, pair.other) for name in side.conditions}
    packages = sorted(name for name in there if name.startswith(PACKAGE))
    return [*(key for key in ASPECTS if key in there), *packages]


def _settled(pair: Pair, key: str) -> bool:
    """Whether both sides know what is compared instead: what a file holds, and not where it lies."""
    instead = (name for name, aspect in ASPECTS.items() if aspect.instead_of == key)
    return any("" not in _values(pair, name) for name in instead)


def _values(pair: Pair, key: str) -> tuple[Value, Value]:
    return _value(pair.baseline.conditions, key), _value(pair.other.conditions, key)


def _value(values: Values, key: str) -> Value:
    return values.get(key, "")


def _apart(aspect: Aspect, one: Value, other: Value) -> tuple[str, str] | None:
    """Return both values in words where they differ, or where only one of them is known."""
    if "" in (one, other):
        return None if one == other else (_words(one, aspect), _words(other, aspect))
    if isinstance(one, float) and isinstance(other, float):
        far = abs(one - other) > aspect.percent / 100 * max(abs(one), abs(other))
        return (_words(one, aspect), _words(other, aspect)) if far else None
    if isinstance(one, tuple) and isinstance(other, tuple):
        alone = _only(one, other), _only(other, one)
        return (alone[0] or "–", alone[1] or "–") if any(alone) else None
    return None if one == other else (_words(one, aspect), _words(other, aspect))


def _only(words: Iterable[str], others: Iterable[str]) -> str:
    there = set(others)
    return one_line(" ".join(word for word in dict.fromkeys(words) if word not in there), 200)


def _words(value: Value, aspect: Aspect) -> str:
    if value == "":
        return NOT_KNOWN
    if isinstance(value, float):
        return f"{value:,.0f}"
    if isinstance(value, tuple):
        return one_line(" ".join(value), 200) or "none"
    return f"{value} {aspect.unit}" if aspect.unit else value
