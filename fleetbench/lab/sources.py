"""Which mirror this machine installs its own packages from, read from its apt sources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A package archive: without a `url` mmdebstrap chooses the distribution's default."""

    suite: str
    url: str = ""
    components: tuple[str, ...] = ("main",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One enabled entry of apt's sources."""

    url: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


def parse_one_line(text: str) -> tuple[Source, ...]:
    """Read the classic format: `deb [options] URL SUITE COMPONENT...`."""
    found = []
    for line in text.splitlines():
        match = re.match(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+([^#]+)", line.strip())
        if match is not None:
            found.append(Source(url=match[1], suites=(match[2],), components=tuple(match[3].split())))
    return tuple(found)


def parse_deb822(text: str) -> tuple[Source, ...]:
    """Read the stanza format of `*.sources` files."""
    found = []
    for stanza in re.split(r"\n\s*\n", text):
        lines = [line for line in stanza.splitlines() if not line.startswith("#")]
        unfolded = re.sub(r"\n[ \t]+", " ", "\n".join(lines))
        fields = {
            key.lower(): value.split() for key, value in re.findall(r"^([\w-]+):[ \t]*(.*)$", unfolded, re.M)
        }
        enabled = fields.get("enabled", ["yes"]) != ["no"]
        if enabled and "deb" in fields.get("types", ()):
            found += [
                Source(
                    url=url,
                    suites=tuple(fields.get("suites", ())),
                    components=tuple(fields.get("components", ())),
                )
                for url in fields.get("uris", ())
            ]
    return tuple(found)


def choose(sources: Iterable[Source], suite: str) -> Mirror:
    """Return the archive that offers the release itself, not only its updates."""
    for source in sources:
        if suite in source.suites and "main" in source.components:
            known = {"main", "universe"}  # dnf is in Ubuntu's universe
            components = tuple(name for name in source.components if name in known)
            return Mirror(suite=suite, url=source.url.rstrip("/"), components=components)
    return Mirror(suite=suite)


def parse_os_release(text: str) -> Mapping[str, str]:
    """Return the fields of an os-release file without their quotes."""
    pairs = re.findall(r"^([A-Z_]+)=[\"']?(.*?)[\"']?$", text, flags=re.MULTILINE)
    return dict(pairs)


def _resolve(source: Source) -> Source:
    """Cloud images point apt at a file with mirror names; take the first one in it."""
    prefix = "mirror+file:"
    if not source.url.startswith(prefix):
        return source
    path = Path("/" + source.url.removeprefix(prefix).lstrip("/"))
    names = path.read_text(encoding="utf-8").split() if path.exists() else []
    url = next((name for name in names if "://" in name), "")
    return Source(url=url, suites=source.suites, components=source.components)


def read(etc: Path = Path("/etc")) -> Mirror:
    """Return this machine's own mirror."""
    release = parse_os_release((etc / "os-release").read_text(encoding="utf-8"))
    found: list[Source] = []
    for path in sorted((etc / "apt" / "sources.list.d").glob("*.sources")):
        found += parse_deb822(path.read_text(encoding="utf-8", errors="replace"))
    for path in (etc / "apt" / "sources.list", *sorted((etc / "apt" / "sources.list.d").glob("*.list"))):
        if path.exists():
            found += parse_one_line(path.read_text(encoding="utf-8", errors="replace"))
    resolved = [_resolve(source) for source in found]
    return choose([source for source in resolved if source.url], release.get("VERSION_CODENAME", "bookworm"))
