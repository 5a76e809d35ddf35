"""What the real ssh says about reaching a host."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from fleetbench.errors import InventoryError, NotPossible
from fleetbench.inventory import ssh_options
from fleetbench.inventory.ssh_options import SshOptions, expand, parse, proxy_arguments, resolve
from fleetbench.model import Build, Host

OUTPUT = """host gpu-a
user ops
hostname 10.9.8.7
port 2200
batchmode no
identitiesonly yes
stricthostkeychecking true
serveraliveinterval 20
hostkeyalias gpu-a.example
identityfile ~/.ssh/fleet
identityfile %d/keys/for %n
certificatefile ~/.ssh/fleet-cert.pub
globalknownhostsfile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2
userknownhostsfile /home/me/.ssh/known /home/me/my own hosts
identityagent none
connecttimeout 7
somethingnew ofthenext release
proxyjump gate,me@[fe80::1]:2222
"""

NONE = """host plain
user me
hostname plain
port 22
identitiesonly no
serveraliveinterval 0
identityfile none
userknownhostsfile none
connecttimeout none
proxyjump none
proxycommand none
"""


def host(name: str, ssh_config: str = "") -> Host:
    return Host(name=name, build=Build(name="b", version="1"), ssh_config=ssh_config)


def test_options_are_read_from_the_output_of_ssh() -> None:
    assert parse(OUTPUT) == SshOptions(
        alias="gpu-a",
        hostname="10.9.8.7",
        user="ops",
        port=2200,
        host_key_alias="gpu-a.example",
        identity_files=("~/.ssh/fleet", "%d/keys/for %n"),
        certificate_files=("~/.ssh/fleet-cert.pub",),
        known_hosts_files=(
            "/home/me/.ssh/known",
            "/home/me/my own hosts",
            "/etc/ssh/ssh_known_hosts",
            "/etc/ssh/ssh_known_hosts2",
        ),
        proxy_jump="gate,me@[fe80::1]:2222",
        identities_only=True,
        connect_timeout_s=7,
        keepalive_s=20,
        strict_host_key_checking="true",
    )


def test_none_means_not_set() -> None:
    assert parse(NONE) == SshOptions(alias="plain", hostname="plain", user="me")


@pytest.mark.parametrize("text", ["", "\n\n", "port abc\n", "port\n", "nonsense"])
def test_odd_output_gives_plain_options(text: str) -> None:
    assert parse(text).port == 22


def test_tokens_tilde_and_variables_are_replaced() -> None:
    options = expand(
        SshOptions(
            alias="a",
            hostname="10.0.0.1",
            user="ops",
            port=2200,
            identity_files=(
                "~/.ssh/id",
                "%d/%h_%r_%p_%n_%u",
                "${KEYS}/k",
                "${ABSENT}/k",
                "~other/x",
                "100%%",
            ),
            proxy_command="ssh -W %h:%p gate %X",
        ),
        home="/home/me",
        user="me",
        environment={"KEYS": "/keys"},
    )
    assert options.identity_files == (
        "/home/me/.ssh/id",
        "/home/me/10.0.0.1_ops_2200_a_me",
        "/keys/k",
        "${ABSENT}/k",
        "~other/x",
        "100%",
    )
    assert options.proxy_command == "ssh -W 10.0.0.1:2200 gate %X"


@pytest.mark.parametrize(
    ("jump", "expected"),
    [
        ("gate", "ssh -o BatchMode=yes -W [10.0.0.1]:22 gate"),
        ("ops@gate:2200", "ssh -o BatchMode=yes -l ops -p 2200 -W [10.0.0.1]:22 gate"),
        ("a,b@c,d", "ssh -o BatchMode=yes -J a,b@c -W [10.0.0.1]:22 d"),
        ("ssh://me@gate:22", "ssh -o BatchMode=yes -l me -p 22 -W [10.0.0.1]:22 gate"),
        ("[fe80::1]:2222", "ssh -o BatchMode=yes -p 2222 -W [10.0.0.1]:22 fe80::1"),
    ],
)
def test_a_proxy_jump_becomes_the_command_that_ssh_runs_for_it(jump: str, expected: str) -> None:
    options = SshOptions(alias="a", hostname="10.0.0.1", proxy_jump=jump)
    assert " ".join(proxy_arguments(options)) == expected


def test_a_proxy_command_goes_to_a_shell_and_a_direct_host_needs_none() -> None:
    options = SshOptions(hostname="a", proxy_command='nc -x "p q" a 22')
    assert proxy_arguments(options) == ("sh", "-c", 'exec nc -x "p q" a 22')
    assert proxy_arguments(SshOptions(hostname="a")) == ()
    jump = SshOptions(hostname="a", proxy_jump="gate")
    assert proxy_arguments(jump, ssh_config="/c")[3:5] == ("-F", "/c")


@pytest.mark.parametrize("jump", ["-oProxyCommand=id", "a b@", "gate:port", ",", "[fe80::1"])
def test_a_proxy_jump_that_cannot_be_read_is_refused(jump: str) -> None:
    with pytest.raises(InventoryError, match="cannot be read"):
        proxy_arguments(SshOptions(alias="a", hostname="a", proxy_jump=jump))


needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh client on this machine")


@needs_ssh
def test_the_real_ssh_is_asked_with_include_and_match(tmp_path: Path) -> None:
    key, known = tmp_path / "my key", tmp_path / "known"
    key.write_text("")
    known.write_text("")
    (tmp_path / "more").write_text(f'Host gpu-*\n  IdentityFile "{key}"\n  IdentityFile {tmp_path}/absent\n')
    config = tmp_path / "config"
    config.write_text(
        f"Include {tmp_path}/more\n"
        f"Match host gpu-b\n  ProxyJump gate\n"
        f"Host gpu-a\n  HostName 10.9.8.7\n  ProxyJump none\n  ConnectTimeout 5\n"
        f"Host *\n  User ops\n  IdentitiesOnly yes\n  UserKnownHostsFile {known} {tmp_path}/absent\n"
        f"  GlobalKnownHostsFile none\n  ProxyJump other\n"
    )
    direct, jumped = (resolve(host(name, str(config))) for name in ("gpu-a", "gpu-b"))
    assert (direct.hostname, direct.user, direct.port) == ("10.9.8.7", "ops", 22)
    assert direct.identity_files == (str(key),)
    assert direct.known_hosts_files == (str(known),)
    assert (direct.identities_only, direct.connect_timeout_s) == (True, 5)
    assert proxy_arguments(direct) == ()
    assert jumped.proxy_jump == "gate"


@needs_ssh
def test_a_mistake_in_ssh_config_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host *\n  Prot 22\n")
    with pytest.raises(InventoryError, match="ssh cannot say") as caught:
        resolve(host("gpu-a", str(tmp_path / "config")))
    assert caught.value.host == "gpu-a"
    assert "bad configuration options" in caught.value.cause.lower()
    with pytest.raises(InventoryError) as caught:
        resolve(host("gpu-a", str(tmp_path / "absent")))
    assert "No such file" in caught.value.cause


@pytest.mark.parametrize("name", ["", "-oProxyCommand=id"])
def test_a_name_that_ssh_would_take_for_an_option_is_refused(name: str) -> None:
    with pytest.raises(InventoryError, match="cannot be a host name"):
        resolve(host(name))


def test_a_machine_without_ssh_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotPossible, match="ssh is not installed"):
        resolve(host("a"))


def test_an_ssh_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "ssh"
    fake.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(30)\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ssh_options, "ASK_TIMEOUT_S", 0.5)
    with pytest.raises(InventoryError, match="did not answer"):
        resolve(host("a"))
