"""The members of an archive that somebody sent, one after the other, in bounded time and memory.

Not `tarfile`: that reads the names in extended headers and whatever a link says before anybody can refuse
them. Here a member is a regular file with a plain header (ustar); a directory is passed over, and anything
else that tar can do ends the reading.
"""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from fleetbench.errors import Unreadable, one_line

BLOCK = 512
CHUNK = 1 << 16
MOST_BYTES = 16 * 1024**3  # of an archive, unpacked
MOST_MEMBERS = 1_000_000
MOST_MEMORY = 256 << 20  # of xz; the strongest preset takes 65 MiB to unpack
_XZ, _GZIP = b"\xfd7zXZ\x00", b"\x1f\x8b"


@dataclass(slots=True)
class Member:
    """One file of an archive. Its content can be read once, before the next member is asked for."""

    name: str
    size_bytes: int
    _source: Unpacked

    def chunks(self) -> Iterator[bytes]:
        """Yield the content in pieces; Unreadable when the archive ends before it does."""
        left = self.size_bytes
        while left:
            found = self._source.read(min(left, CHUNK))
            if not found:
                raise Unreadable(f"the archive ends within {one_line(self.name, 80)}")
            left -= len(found)
            yield found
        self._source.skip(-self.size_bytes % BLOCK)

    def content(self, limit: int) -> bytes:
        """Return the whole content; Unreadable when it is longer than `limit` bytes."""
        if self.size_bytes > limit:
            raise Unreadable(f"{one_line(self.name, 80)} is larger than {limit // 2**20} MiB")
        return b"".join(self.chunks())


def members(file: IO[bytes]) -> Iterator[Member]:
    """Given an archive, packed by xz or gzip, yield its files. Unreadable, with the reason, when it is none.

    The content of each has to be read to its end before the next one is asked for.
    """
    source = Unpacked(file)
    for number in range(MOST_MEMBERS + 1):
        header = source.read_whole(BLOCK)
        if len(header) < BLOCK or not header.strip(b"\0"):
            return
        if number == MOST_MEMBERS:
            break
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeError) as exc:
            raise Unreadable("this is no archive of a run", cause=f"member {number + 1}: {exc}") from exc
        if info.type == tarfile.DIRTYPE and not info.size:
            continue
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.size < 0:
            raise Unreadable(
                f"{one_line(info.name, 80)} is no regular file",
                cause="an archive of a run has nothing else, no links and no devices",
            )
        yield Member(info.name, info.size, source)
    raise Unreadable(f"the archive has more than {MOST_MEMBERS:,} files")


class Unpacked:
    """What an xz or gzip file holds, never more of it in memory than was asked for and one chunk."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._fed = file.read(CHUNK)
        self._xz: lzma.LZMADecompressor | None = None
        self._gzip = zlib.decompressobj(wbits=31)  # 31: with gzip's header
        self._total = 0
        if self._fed.startswith(_XZ):
            self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY)
        elif not self._fed.startswith(_GZIP):
            raise Unreadable("this is no archive of a run", cause="it is packed neither by xz nor by gzip")

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, nothing only at the end."""
        try:
            found = self._by_xz(size) if self._xz is not None else self._by_gzip(size)
        except (lzma.LZMAError, zlib.error, EOFError) as exc:
            raise Unreadable("the archive is broken", cause=str(exc)) from exc
        self._total += len(found)
        if self._total > MOST_BYTES:
            raise Unreadable(f"the archive unpacks to more than {MOST_BYTES // 2**30} GiB")
        return found

    def read_whole(self, size: int) -> bytes:
        """Return so many bytes, less only at the end."""
        parts: list[bytes] = []
        while size and (found := self.read(size)):
            parts.append(found)
            size -= len(found)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Pass over so many bytes."""
        self.read_whole(size)

    def _by_xz(self, size: int) -> bytes:
        unpacker = self._xz
        while unpacker is not None and not unpacker.eof:
            if unpacker.needs_input and not self._fed:
                self._fed = self._file.read(CHUNK)
                if not self._fed:
                    raise EOFError("it ends too early")
            fed, self._fed = (self._fed, b"") if unpacker.needs_input else (b"", self._fed)
            if found := unpacker.decompress(fed, size):
                return found
        return b""

    def _by_gzip(self, size: int) -> bytes:
        while not self._gzip.eof:
            fed = self._gzip.unconsumed_tail or self._fed or self._file.read(CHUNK)
            if not self._gzip.unconsumed_tail:
                self._fed = b""
            if not fed:
                raise EOFError("it ends too early")
            if found := self._gzip.decompress(fed, size):
                return found
        return b""
