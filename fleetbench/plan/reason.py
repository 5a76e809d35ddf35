"""Why a configuration is judged as it is: one rule, the numbers it was applied to, and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What a reason does to the verdict; a remark does nothing."""

    IMPOSSIBLE = "impossible"
    CANNOT = "cannot"
    DOUBT = "doubt"
    REMARK = "remark"


@dataclass(frozen=True, slots=True)
class Reason:
    """`rule` is a short fixed name (`heads`, `kv cache`), `text` a sentence with the numbers."""

    rule: str
    effect: Effect
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def impossible(rule: str, text: str) -> Reason:
    """A rule of vLLM that refuses the configuration."""
    return Reason(rule, Effect.IMPOSSIBLE, text)


def remark(rule: str, text: str) -> Reason:
    """Something to know that does not change the verdict."""
    return Reason(rule, Effect.REMARK, text)
