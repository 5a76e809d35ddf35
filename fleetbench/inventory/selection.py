"""Which hosts an expression means: `a,b,@group,h100-[01-08],gpu-*,!x`. The same grammar in --hosts and in
the `hosts` of a group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from fleetbench.errors import InventoryError
from fleetbench.inventory.names import suggestion
from fleetbench.inventory.patterns import expand_names, fold_names, split_expression
from fleetbench.inventory.problems import shown
from fleetbench.inventory.values import Inventory
from fleetbench.model import Host

ALL = "all"


@dataclass(frozen=True, slots=True)
class Picked:
    """What terms came to: names in the hosts' order, and a sentence for each term that means nothing."""

    names: tuple[str, ...]
    problems: tuple[str, ...]


def select(inventory: Inventory, expression: str) -> tuple[Host, ...]:
    """Return the hosts that an expression means, in the order of the inventory, each once.

    Terms are joined by commas: names, ranges, globs (`*`, `?`), `@group`, `@all`; a term that begins with
    `!` takes hosts away, wherever it stands. Raises `InventoryError` when a term means nothing (also after
    `!`: a misspelt exclusion must not widen the selection) and when no host is left.
    """
    terms = split_expression(expression)
    if not terms or all(term.startswith("!") for term in terms):
        raise InventoryError(
            f"{shown(expression)} selects no host",
            cause="every term takes hosts away" if terms else "it is empty",
            next_step=f"write {','.join(('@all', *terms))}; `fleetbench inventory expand` prints all names",
        )
    picked = pick(terms, tuple(inventory.hosts), inventory.groups, inventory.groups.__getitem__)
    if picked.problems:
        raise InventoryError(
            picked.problems[0] if len(picked.problems) == 1 else f"{shown(expression)} cannot be selected",
            cause="; ".join(picked.problems) if len(picked.problems) > 1 else "",
            next_step="`fleetbench inventory expand` prints all names",
        )
    if not picked.names:
        raise InventoryError(
            f"{shown(expression)} selects no host",
            cause="nothing is left after the exclusions" if inventory.hosts else "the inventory has no hosts",
            next_step="`fleetbench inventory expand EXPRESSION` shows what an expression means",
        )
    return tuple(inventory.hosts[name] for name in picked.names)


def pick(
    terms: Iterable[str],
    hosts: Sequence[str],
    groups: Collection[str],
    members: Callable[[str], Collection[str]],
) -> Picked:
    """Given terms, the names of all hosts and groups, and what a group's members are, return the hosts."""
    wanted: set[str] = set()
    unwanted: set[str] = set()
    problems: list[str] = []
    for term in terms:
        excluded = term.startswith("!")
        names = _meaning(term.removeprefix("!").strip(), hosts, groups, members, problems)
        (unwanted if excluded else wanted).update(names)
    return Picked(tuple(name for name in hosts if name in wanted - unwanted), tuple(problems))


def _meaning(
    term: str,
    hosts: Sequence[str],
    groups: Collection[str],
    members: Callable[[str], Collection[str]],
    problems: list[str],
) -> set[str]:
    """Return the hosts that one term without its `!` means; what is wrong with it goes into `problems`."""
    is_group = term.startswith("@")
    noun, known, sign = ("group", (*groups, ALL), "@") if is_group else ("host", hosts, "")
    try:
        names = expand_names(term.removeprefix("@"))
    except ValueError as exc:
        problems.append(str(exc))
        return set()
    found: set[str] = set()
    missing: list[str] = []
    for name in names:
        matches = [name] if name in known else [one for one in known if _globbed(one, name)]
        missing += [] if matches else [name]
        for match in matches:
            found.update([match] if not is_group else hosts if match == ALL else members(match))
    if missing:
        # A range with a gap names the missing ones only; one near name is hint enough for all of them.
        hint = suggestion(missing[0], known, prefix=sign)
        problems.append(
            f"no {noun} is called {sign}{shown(fold_names(missing)).strip(chr(34))}"
            + (f"; {hint}" if hint else "")
        )
    return found


def _globbed(name: str, pattern: str) -> bool:
    # Brackets are ranges and gone by now, so that fnmatch only ever sees * and ?.
    return ("*" in pattern or "?" in pattern) and fnmatchcase(name, pattern)
