"""The inventory that a lab writes: valid TOML whatever is in it, and readable by our own loader."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbench.inventory.loader import load
from fleetbench.lab import inventory
from fleetbench.lab.inventory import LabHost, Publication

BUILD = '[builds.cpu]\nversion = "0.1.0"\ndevice = "cpu"\n'


def host(name: str = "lab-01", gpus: str = "2x H100") -> LabHost:
    return LabHost(
        name=name,
        address="198.18.0.11",
        gpus=gpus,
        public_key="ssh-ed25519 AAAAC3Nz host-lab-01\n",
        identity=Path("/state/keys/operator"),
        python="python3.13",
    )


texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.one_of(
        texts, st.booleans(), st.integers(-(2**62), 2**62), st.lists(texts), st.dictionaries(texts, texts)
    )
)
def test_every_value_survives_being_written_as_toml(value: inventory.Value) -> None:
    assert tomllib.loads(f"key = {inventory.toml(value)}\n") == {"key": value}


def test_what_is_written_is_what_our_loader_reads(tmp_path: Path) -> None:
    defaults = {"build": "cpu", "prefix": "/opt/vllm", "ports": [8001, 8010], "env": {"A": 'say "hi"'}}
    inventory.write_inventory([host(), host("lab-02", "")], tmp_path / "lab", BUILD, defaults)
    (tmp_path / "hosts.toml").write_text("")
    found = {one.name: one for one in load(tmp_path).hosts.values()}
    first, second = found["lab-01"], found["lab-02"]
    assert (first.gpu, first.gpu_count, first.python) == ("H100", 2, "python3.13")
    assert (first.build.name, first.ports, first.env["A"]) == ("cpu", (8001, 8010), 'say "hi"')
    assert first.ssh_config == str(tmp_path / "lab" / "ssh_config")
    assert (second.gpu, second.gpu_count, second.groups) == ("", None, ("lab",))


def test_the_ssh_config_insists_on_known_keys(tmp_path: Path) -> None:
    inventory.write_inventory([host()], tmp_path / "lab")
    config = (tmp_path / "lab/ssh_config").read_text()
    assert "Host lab-01\n  HostName 198.18.0.11\n" in config
    assert "StrictHostKeyChecking yes" in config
    assert f"UserKnownHostsFile {tmp_path}/lab/known_hosts" in config
    assert (tmp_path / "lab/known_hosts").read_text() == "lab-01,198.18.0.11 ssh-ed25519 AAAAC3Nz\n"


def test_removing_leaves_other_peoples_files(tmp_path: Path) -> None:
    place = tmp_path / "lab"
    inventory.write_inventory([host()], place)
    (place / "models.toml").write_text("")
    inventory.remove_inventory(place)
    assert [path.name for path in place.iterdir()] == ["models.toml"]
    (place / "models.toml").unlink()
    inventory.remove_inventory(place)
    inventory.remove_inventory(place)
    assert not place.exists()


def test_a_publication_is_remembered(tmp_path: Path) -> None:
    told = Publication(directory=tmp_path, build_toml=BUILD, defaults={"ports": [1, 2], "env": {"A": "b"}})
    inventory.remember(told, tmp_path / "inventory.json")
    assert inventory.recall(tmp_path / "inventory.json") == told
    assert inventory.recall(tmp_path / "none.json") is None


@pytest.mark.parametrize(
    ("spec", "facts"),
    [
        ("", {}),
        ("8x H100", {"gpu_count": 8, "gpu": "H100"}),
        ("driver=1 cuda=2|1x RTX4090", {"gpu_count": 1, "gpu": "RTX 4090"}),
        ("2x RTX6000ADA", {"gpu_count": 2, "gpu": "RTX 6000 Ada"}),
        ("2x A100-40", {"gpu_count": 2, "gpu": "A100"}),
        ("1x H100|1x L4", {"gpu_count": 2}),
    ],
)
def test_gpu_facts_follow_the_specification(spec: str, facts: dict[str, object]) -> None:
    assert inventory.gpu_facts(spec) == facts
