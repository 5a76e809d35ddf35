"""What a tool prints and how it exits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """Standard output as a whole, and the exit status."""

    text: str
    status: int = 0
