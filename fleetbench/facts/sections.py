"""The frame of the probe's answer: which lines belong to which section, and how each section ended.

`TOKEN.section.kind` lines separate; every line of content has one blank in front, so content can never be
taken for a separator, even by somebody who reads TOKEN from the process list of the host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fleetbench.errors import one_line
from fleetbench.facts.fields import clean
from fleetbench.facts.values import Missing

_TIMED_OUT = (124, 137)  # timeout(1): ended by SIGTERM, and by SIGKILL
_TOO_LONG = 153  # killed by SIGXFSZ: printed more than the probe's file limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one section printed. `status` is None when its end did not arrive."""

    out: str = ""
    err: str = ""
    status: int | None = None

    @property
    def ok(self) -> bool:
        """True when the section ended well."""
        return self.status == 0

    def failure(self, tool: str) -> str:
        """Why the section did not end well, one line that names the tool; empty when it did."""
        if self.status == 0:
            return ""
        if self.status is None:
            return f"{tool}: the probe's answer was cut off"
        if self.status in _TIMED_OUT:
            return f"{tool}: no answer in time; it hangs"
        if self.status == _TOO_LONG:
            return f"{tool}: printed far too much"
        if self.status == 127:
            return f"{tool}: {_said(self.err) or 'command not found'}"
        return f"{tool}: {_said(self.err) or _said(self.out) or f'ended with status {self.status}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """All sections of one answer; `complete` is true when its last line has arrived."""

    by_name: Mapping[str, Section]
    complete: bool = False

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __getitem__(self, name: str) -> Section:
        return self.by_name.get(name, Section())

    def missing(self, name: str, tool: str) -> Missing | None:
        """Return the reason as a fact when a section that always runs is absent or failed, else None."""
        if name not in self.by_name:
            probe = self["probe"].err
            return Missing(clean(probe) or f"{tool}: the probe's answer was cut off")
        failure = self.by_name[name].failure(tool)
        return Missing(failure) if failure else None


def split(output: str, token: str) -> Sections:
    """Given the probe's stdout and the token it was started with, return its sections."""
    header = re.compile(re.escape(token) + r"\.([a-z0-9_-]{1,40})\.(out|err|rc)")
    collected: dict[str, dict[str, list[str]]] = {}
    current: list[str] | None = None
    for line in output.split("\n"):
        if line.startswith(" "):
            if current is not None:
                current.append(line[1:])
            continue
        match = header.fullmatch(line.rstrip("\r"))
        if match is not None:
            current = collected.setdefault(match[1], {}).setdefault(match[2], [])
    return Sections(
        by_name=MappingProxyType({name: _section(kinds) for name, kinds in collected.items()}),
        complete="end" in collected,
    )


def _section(kinds: Mapping[str, list[str]]) -> Section:
    status = "".join(kinds.get("rc", [])[:1]).strip()
    return Section(
        out="".join(f"{line}\n" for line in kinds.get("out", [])),
        err="".join(f"{line}\n" for line in kinds.get("err", [])),
        status=int(status) if re.fullmatch(r"[0-9]{1,3}", status) else None,
    )


def _said(text: str) -> str:
    """All of a short message (nvidia-smi's take two lines); the last line of a long one or a traceback."""
    lines = [line for line in text[-4000:].split("\n") if line.strip()]
    if len(lines) > 4 or any(line.startswith("Traceback ") for line in lines):
        lines = lines[-1:]
    return one_line(clean(" ".join(lines), 300), 300)
