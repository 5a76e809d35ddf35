"""What `invoke status` says of a unit beside its state."""

from __future__ import annotations

from typing import Any

import pytest
from nouns import HOST, unit

from fleetbench.verbs.watching import status_row

MARK = "20261130-193135-tiny-60e6/3 1,234 tok/s at c=64"
FROM = "promoted from 20261130-193135-tiny-60e6 trial 3 (1,234 tok/s at c=64)"


@pytest.mark.parametrize(
    ("state", "note"),
    [
        ({"spec": "a", "running_spec": "a"}, ""),
        ({"spec": "a", "running_spec": "b"}, "restart pending: the file is newer than the process"),
        ({"spec": "a", "running_spec": "a", "promoted": MARK}, FROM),
        ({"promoted": "run/2"}, "promoted from run trial 2"),
        (
            {"spec": "a", "servers": (8002, 8003), "promoted": MARK},
            f"nginx in front of vllm-8002, vllm-8003; {FROM}",
        ),
        (
            {"active": "failed", "result": "exit-code", "exit_code": 1, "promoted": "run/2"},
            "exit-code, status 1; promoted from run trial 2",
        ),
        ({"need_reload": True, "spec": "a"}, "file changed since daemon-reload"),
    ],
)
def test_a_note_says_what_is_to_be_known(state: dict[str, Any], note: str) -> None:
    assert status_row(HOST, unit(8001, "0,1", **state))[-1] == note
