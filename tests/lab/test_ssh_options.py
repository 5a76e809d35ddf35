"""What ssh_config says is what happens, on a real host."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_under_test import LabUnderTest

from fleetbench.errors import HostKeyRefused
from fleetbench.lab import lab as labs
from fleetbench.model import Build, Host
from fleetbench.transport.open import open_session

BUILD = Build(name="b", version="0.32.0")


def host_known_as(lab: LabUnderTest, place: Path, alias: str) -> Host:
    """The lab's first host under another name, its key known only under `alias`."""
    first = next(one for one in labs.listing(lab.settings) if one.name == lab.names[0])
    (place / "known_hosts").write_text(f"behind-the-nat {' '.join(first.public_key.split()[:2])}\n")
    (place / "ssh_config").write_text(
        f"Host node\n  HostName {first.address}\n  User root\n  HostKeyAlias {alias}\n  ConnectTimeout 4\n"
        f"  IdentityFile {first.identity}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {place / 'known_hosts'}\n  GlobalKnownHostsFile /dev/null\n"
    )
    return Host(name="node", build=BUILD, ssh_config=str(place / "ssh_config"))


def test_a_host_key_alias_is_the_name_that_is_looked_up(lab: LabUnderTest, tmp_path: Path) -> None:
    session = open_session(host_known_as(lab, tmp_path, "behind-the-nat"))
    try:
        assert session.run(("hostname",)).stdout.strip() == lab.names[0]
    finally:
        session.close()


def test_an_unknown_alias_is_refused(lab: LabUnderTest, tmp_path: Path) -> None:
    with pytest.raises(HostKeyRefused):
        open_session(host_known_as(lab, tmp_path, "somebody-else"))
