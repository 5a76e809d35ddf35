"""A mistyped verb or option, told with the name that was meant; invoke says only that it has no idea."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fleetbench.errors import UsageError


def mistake(words: Sequence[str], options: Mapping[str, Collection[str]]) -> UsageError | None:
    """Given the words after `invoke` and the options of each verb, with dashes, return what is wrong.

    None where nothing is, and where it is invoke's own business: words that begin with options of its own.
    """
    if not words or words[0].startswith("-"):
        return None
    verb, *rest = words
    if verb not in options:
        return UsageError(f"there is no verb {verb[:60]}", next_step=_next(verb, options, "invoke --list"))
    for word in rest:
        option = word.partition("=")[0]
        if option.startswith("--") and option != "--" and option not in options[verb]:
            return UsageError(
                f"invoke {verb} has no option {option[:60]}",
                next_step=_next(option, options[verb], f"invoke --help {verb}"),
            )
    return None


def _next(wrong: str, known: Collection[str], help_command: str) -> str:
    from fleetbench.inventory.names import near_names

    near = near_names(wrong, sorted(known))
    return f"did you mean {' or '.join(near)}?" if near else help_command
