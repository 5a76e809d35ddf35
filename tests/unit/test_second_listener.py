"""A second server on the port of one that is measured."""

from __future__ import annotations

import re

from nouns import HOST

from fleetbench.results.rows import Verdict
from fleetbench.sweep.port import second_listener, stranger
from fleetbench.transport.durable import DurableSession
from fleetbench.transport.fake import FakeSession

UNIT = "vllm-8001.service"


def seen(*owners: str) -> str:
    """Return who else is on the port, where the host says that these processes listen there."""

    def answer(line: str) -> str:
        found = re.search(r"\b([0-9a-f]{16})\b", line)
        assert found is not None
        return f"#{found[1]} owners\n" + "".join(f" {owner}\n" for owner in owners)

    fake = FakeSession(HOST, [(UNIT, answer)])
    return stranger(DurableSession(HOST, lambda: fake), UNIT, 8001, "127.0.0.1")


def test_processes_of_the_unit_itself_are_no_strangers() -> None:
    assert seen() == ""
    assert seen(f"17 /system.slice/{UNIT}", f"18 /system.slice/{UNIT}/worker") == ""


def test_somebody_else_is_named_and_the_measurement_is_invalid() -> None:
    other = seen(f"17 /system.slice/{UNIT}", "99 /system.slice/foreign.service")
    assert other == "pid 99 (foreign.service)"
    (finding,) = second_listener(8001, other)
    assert finding.verdict is Verdict.INVALID
    assert (
        finding.text
        == "pid 99 (foreign.service) listens on port 8001, too, and answered a part of the requests"
    )
    assert list(second_listener(8001, "")) == []
