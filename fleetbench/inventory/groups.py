"""Groups: who is in them, and which of their variables a host gets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fleetbench.inventory.documents import Place
from fleetbench.inventory.patterns import split_expression
from fleetbench.inventory.problems import shown
from fleetbench.inventory.selection import ALL, pick

Variables = Mapping[tuple[str, ...], Any]
"""Host variables by key path: `("gpu",)`, `("env", "NCCL_DEBUG")`; tables merge variable by variable."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group as written: its terms and the variables that its members get."""

    name: str
    place: Place
    terms: tuple[str, ...]
    variables: Variables


def flatten(values: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Given the values of a table, return them by key path, one level into tables."""
    flat: dict[tuple[str, ...], Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update({(key, name): inner for name, inner in value.items()})
        else:
            flat[key,] = value
    return flat


def read_terms(value: Any, place: Place) -> tuple[str, ...]:
    """Read a group's `hosts`: `"a,@b"` or a list of such texts."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        place.expected('host names, ranges or @groups such as ["h100-[01-08]", "@h200"]', value)
        return ()
    return tuple(term for text in texts for term in split_expression(text))


class Membership:
    """The members of each group, groups inside groups followed; built once all hosts are known."""

    def __init__(self, groups: Mapping[str, Group], hosts: tuple[str, ...]) -> None:
        self._groups = groups
        self._hosts = hosts
        self._members: dict[str, tuple[str, ...]] = {}
        self._inner: dict[str, frozenset[str]] = {}
        for name in groups:
            self._resolve(name, ())

    @property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the hosts in each group, in the order of the inventory."""
        return {name: self._members.get(name, ()) for name in self._groups}

    def of(self, host: str) -> tuple[str, ...]:
        """Names of the groups that a host is in, in the order of their definition."""
        return tuple(name for name in self._groups if host in self._members.get(name, ()))

    def variables(self, host: str, set_by_host: Collection[tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
        """Return what a host gets from its groups; a group inside another one wins over it.

        Two groups of which neither is inside the other and that say different things are a problem, unless
        the host says it itself.
        """
        groups = self.of(host)
        merged: dict[tuple[str, ...], Any] = {}
        for key in dict.fromkeys(key for name in groups for key in self._groups[name].variables):
            setters = [name for name in groups if key in self._groups[name].variables]
            nearest = [name for name in setters if not self._inner[name].intersection(setters)]
            values = [self._groups[name].variables[key] for name in nearest]
            merged[key] = values[0]
            differing = [name for name, value in zip(nearest, values, strict=True) if value != values[0]]
            if differing and key not in set_by_host:
                place = self._groups[differing[0]].place
                for part in key:
                    place = place.at(part)
                place.report(
                    f"differs from group {nearest[0]} for hosts in both; write it in the host's own table, "
                    f"or put one group into the other"
                )
        return merged

    def _resolve(self, name: str, outer: tuple[str, ...]) -> tuple[str, ...]:
        if name in self._members:
            return self._members[name]
        group = self._groups[name]
        place = group.place.at("hosts")
        if name in outer:
            place.report(
                f"a group cannot be inside itself: {' > '.join((*outer[outer.index(name) :], name))}"
            )
            return ()
        inner: set[str] = set()

        def members(member: str) -> tuple[str, ...]:
            resolved = self._resolve(member, (*outer, name))
            inner.update({member}, self._inner.get(member, ()))
            return resolved

        picked = pick(group.terms, self._hosts, self._groups, members)
        for problem in picked.problems:
            place.report(problem)
        self._members[name] = picked.names
        self._inner[name] = frozenset(inner - {name})
        return picked.names


def check_name(place: Place, name: str) -> bool:
    """True when a group may be called that; `all` always means every host."""
    if name == ALL:
        place.report(f"expected another name than {shown(name)}: @all always means every host")
        return False
    return True
