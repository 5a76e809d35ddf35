"""An inventory of three files for tests about what is wrong in one of them."""

from __future__ import annotations

from pathlib import Path

from fleetbench.inventory import InventoryProblems, load

HOSTS = """\
[defaults]
build = "cuda"
[builds.cuda]
version = "0.19.1"
[hosts."h100-[01-08]"]
[hosts.a100-01]
"""
NAME_RULE = "letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 64"
MODELS = """\
[models.tiny]
repo = "me/tiny"
"""
SWEEPS = """\
[sweeps.tp-dp]
parallel = "all"
"""


def problems(directory: Path, **texts: str | bytes) -> list[str]:
    """Write the three files, some of them replaced, and return what is wrong, without the directory."""
    for name, standard in (("hosts", HOSTS), ("models", MODELS), ("sweeps", SWEEPS)):
        content = texts.get(name, standard)
        file = directory / f"{name}.toml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    try:
        load(directory)
    except InventoryProblems as exc:
        return str(exc).replace(f"{directory}/", "").splitlines()
    return []
