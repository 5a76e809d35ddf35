"""Managed files and free disk space."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from types import MappingProxyType

from fleetbench.facts.fields import clean, rows, whole
from fleetbench.facts.sections import Sections
from fleetbench.facts.values import Disk, File, Missing

_KINDS = {
    "regular file": "file",
    "regular empty file": "file",
    "directory": "directory",
    "symbolic link": "link",
}
_MIB = 1048576
_HASH = re.compile(r"([0-9a-f]{64})  (/.*)")


def files(sections: Sections) -> Mapping[str, File]:
    """Given the probe's sections, return files by path; a path that is not there is absent.

    A text is only kept when it has the hash that the host computed: invalid UTF-8, NUL bytes or a file
    that changed in between leave `text` None.
    """
    text = sections["files"].out
    hashes = {match[2]: match[1] for match in map(_HASH.fullmatch, text.split("\n")) if match}
    entries = rows(text, 5)
    targets = {path: target for kind, path, target, *_ in entries if kind == "target"}
    numbers = {path: number for kind, number, path, *_ in entries if kind == "text"}
    found: dict[str, File] = {}
    for kind, file_type, mode, owner, path in entries:
        if kind != "file" or not path.startswith("/") or not re.fullmatch(r"[0-7]{1,5}", mode):
            continue
        digest = hashes.get(path, "")
        content = sections[f"text-{numbers[path]}"].out if path in numbers else None
        found[path] = File(
            path=path,
            kind=_KINDS.get(file_type, "other"),
            sha256=digest,
            mode=int(mode, 8),
            owner=clean(owner),
            target=clean(targets.get(path, ""), 400),
            text=None if content is None else _verified(content, digest),
        )
    return MappingProxyType(found)


def disks(sections: Sections) -> tuple[Disk, ...] | Missing:
    """Given the probe's sections, return free space for each asked path, as seen by plain users."""
    entries = rows(sections["disks"].out, 5)
    free: dict[str, tuple[int, int]] = {}
    for kind, blocks, total, size, path in entries:
        counts = whole(blocks), whole(total), whole(size)
        if kind == "free" and counts[0] is not None and counts[1] is not None and counts[2] is not None:
            free[path] = counts[0] * counts[2] // _MIB, counts[1] * counts[2] // _MIB
    found = tuple(
        Disk(path=path, free_mib=free[there][0], total_mib=free[there][1])
        for kind, path, there, *_ in entries
        if kind == "asked" and there in free
    )
    return found or sections.missing("disks", "stat -f") or Missing("stat -f: no answer that can be read")


def _verified(content: str, digest: str) -> str | None:
    """The probe's frame ends every line with a newline; the hash says whether the file does, too."""
    for text in (content, content.removesuffix("\n")):
        if hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() == digest:
            return text
    return None
