"""What tells workloads of one label apart: it has neither temperature nor prompts nor arguments. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fleetbench.model import Workload


def apart(load: str, own: Workload, alike: Sequence[Workload]) -> str:
    """Return a load in words with what tells its workload from the others that are called so.

    `alike` are the different workloads of that name, `own` among them.
    """
    if len(alike) < 2:
        return load
    differs = (
        (f"temperature={own.temperature:g}", len({each.temperature for each in alike})),
        (own.prompts.rpartition("/")[2], len({each.prompts for each in alike})),
        (" ".join(own.extra_args), len({each.extra_args for each in alike})),
    )
    told = " ".join(text for text, values in differs if text and values > 1)
    load = f"{load} {told}".rstrip()
    if own != alike[0] and sum(_same_text(own, each) for each in alike) > 1:
        load += f" ({alike.index(own) + 1})"
    return load


def _same_text(one: Workload, other: Workload) -> bool:
    file = one.prompts.rpartition("/")[2] == other.prompts.rpartition("/")[2]
    return file and (one.temperature, one.extra_args) == (other.temperature, other.extra_args)
