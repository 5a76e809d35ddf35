"""Answers of the probe made from fixtures: framed as `probe.sh` does it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleetbench.facts.probe import parse
from fleetbench.facts.values import HostFacts

TOKEN = "00112233445566778899aabbccddeeff"  # noqa: S105  it separates, it opens nothing
FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "facts"
SHARED = Path(__file__).resolve().parents[3] / "shared"


@dataclass(frozen=True)
class Ended:
    """How one section ended."""

    out: str = ""
    status: int | None = 0
    err: str = ""


def fixture(name: str) -> str:
    """Content of one fixture."""
    return (FIXTURES / name).read_text("utf-8")


BARE = {
    "os": fixture("os.txt"),
    "machine": fixture("machine.tsv"),
    "pythons": fixture("pythons.tsv"),
    "tools": fixture("tools.tsv"),
    "packages": fixture("packages.tsv"),
    "accounts": fixture("accounts.txt"),
    "units": "",
    "marks": "",
    "venvs": "",
    "listeners": "",
    "disks": fixture("disks.tsv"),
    "files": "",
    "time": fixture("chrony.txt"),
    "pci": "",
    "cgroups": "",
}
NVIDIA = {
    "nvidia_query": fixture("nvidia_query.csv"),
    "nvidia_table": fixture("nvidia_table.txt"),
    "nvidia_apps": fixture("nvidia_apps.csv"),
    "nvidia_topo": fixture("nvidia_topo.txt"),
    "pci": fixture("pci.tsv"),
    "cgroups": fixture("cgroups.tsv"),
}
SERVING = {
    "units": fixture("units.txt"),
    "marks": fixture("marks.tsv"),
    "venvs": fixture("venvs.tsv"),
    "listeners": fixture("listeners.txt"),
    "firewall": fixture("firewall.txt"),
}


def framed(sections: dict[str, str | Ended], *, end: bool = True) -> str:
    """The probe's stdout for these sections."""
    lines = []
    for name, value in sections.items():
        ended = Ended(out=value) if isinstance(value, str) else value
        for kind, text in (("err", ended.err), ("out", ended.out)):
            if text:
                lines += [
                    f"{TOKEN}.{name}.{kind}",
                    *(f" {line}" for line in text.removesuffix("\n").split("\n")),
                ]
        if ended.status is not None:
            lines += [f"{TOKEN}.{name}.rc", f" {ended.status}"]
    if end:
        lines += [f"{TOKEN}.end.rc", " 0"]
    return "\n".join(lines) + "\n"


def facts_of(*parts: dict[str, str] | dict[str, Ended] | dict[str, str | Ended]) -> HostFacts:
    """Facts of a host whose sections are these, later parts winning."""
    sections: dict[str, str | Ended] = {}
    for part in parts:
        sections |= part
    return parse(framed(sections), host="h100-01", token=TOKEN)
