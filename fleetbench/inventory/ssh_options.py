"""What OpenSSH would do to reach a host, asked from `ssh -G`: Include, Match, tokens and all.

paramiko's own ssh_config reader ignores `Include` and knows few tokens, so the answer of the real ssh is
taken. `parse` is pure; `resolve` asks ssh and keeps only the files that exist.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fleetbench.errors import InventoryError, NotPossible
from fleetbench.model import Host

ASK_TIMEOUT_S = 15  # `Match exec` may run a command of the operator's own


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOptions:
    """How to connect to one host. Empty text, empty tuple or None: not set (`none` in ssh_config).

    Attributes:
        alias: the name that ssh was asked about.
        host_key_alias: name to look up in known_hosts instead of `hostname`.
        identity_files, certificate_files: private keys and certificates, most wanted first.
        known_hosts_files: the user's files, then the system's.
        proxy_jump: `[user@]host[:port]`, several joined by commas, first hop first.
        proxy_command: command line for sh.
        identities_only: offer the identity files only, whatever an agent holds.
        identity_agent: socket of the agent; `SSH_AUTH_SOCK` stands for the environment's own.
        connect_timeout_s, keepalive_s: seconds.
    """

    alias: str = ""
    hostname: str = ""
    user: str = ""
    port: int = 22
    host_key_alias: str = ""
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()
    known_hosts_files: tuple[str, ...] = ()
    proxy_jump: str = ""
    proxy_command: str = ""
    identities_only: bool = False
    identity_agent: str = ""
    connect_timeout_s: int | None = None
    keepalive_s: int | None = None
    strict_host_key_checking: str = "ask"


def parse(output: str) -> SshOptions:
    """Given the output of `ssh -G`, return its options; paths and tokens are still as ssh printed them.

    Unknown keys are skipped: each OpenSSH release prints more of them.
    """
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        key, _, value = line.strip().partition(" ")
        value = value.strip()
        if key and value and value.lower() != "none":
            found.setdefault(key.lower(), []).append(value)

    def text(key: str) -> str:
        return found.get(key, [""])[0]

    return SshOptions(
        alias=text("host"),
        hostname=text("hostname"),
        user=text("user"),
        port=_whole(text("port")) or 22,
        host_key_alias=text("hostkeyalias"),
        identity_files=tuple(found.get("identityfile", ())),
        certificate_files=tuple(found.get("certificatefile", ())),
        known_hosts_files=tuple(
            path
            for key in ("userknownhostsfile", "globalknownhostsfile")
            for value in found.get(key, ())
            for path in _paths(value)
        ),
        proxy_jump=text("proxyjump"),
        proxy_command=text("proxycommand"),
        identities_only=text("identitiesonly") == "yes",
        identity_agent=text("identityagent"),
        connect_timeout_s=_whole(text("connecttimeout")),
        keepalive_s=_whole(text("serveraliveinterval")) or None,
        strict_host_key_checking=text("stricthostkeychecking") or "ask",
    )


def expand(
    options: SshOptions, *, home: str, user: str, environment: Mapping[str, str] = os.environ
) -> SshOptions:
    """Given options as `ssh -G` prints them, return them with `~`, `%` tokens and `${VARIABLE}` replaced.

    Of the tokens in ssh_config(5) those that need no connection are known: %d %h %i %k %L %l %n %p %r %u %%.
    """
    local = socket.gethostname()
    tokens = {
        "%": "%",
        "d": home,
        "h": options.hostname,
        "i": str(os.getuid()),
        "k": options.host_key_alias or options.alias,
        "L": local.partition(".")[0],
        "l": local,
        "n": options.alias,
        "p": str(options.port),
        "r": options.user,
        "u": user,
    }

    def tokens_in(text: str) -> str:
        return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), text)

    def path(text: str) -> str:
        text = re.sub(r"\$\{(\w+)\}", lambda match: environment.get(match[1], match[0]), tokens_in(text))
        if text == "~" or text.startswith("~/"):
            return home + text[1:]
        return text

    return replace(
        options,
        identity_files=tuple(map(path, options.identity_files)),
        certificate_files=tuple(map(path, options.certificate_files)),
        known_hosts_files=tuple(map(path, options.known_hosts_files)),
        identity_agent=path(options.identity_agent),
        proxy_command=tokens_in(options.proxy_command),
    )


def resolve(host: Host) -> SshOptions:
    """Ask ssh how to reach an inventory host and return the options, with the files that exist.

    Raises `InventoryError` when ssh refuses (an ssh_config with a mistake, a file that is not there) and
    `NotPossible` when this machine has no ssh.
    """
    if not host.name or host.name.startswith("-"):
        raise InventoryError(f"{host.name!r} cannot be a host name", next_step="rename it in hosts.toml")
    config = ("-F", str(Path(host.ssh_config).expanduser())) if host.ssh_config else ()
    try:
        answer = subprocess.run(
            ["ssh", "-G", *config, host.name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=ASK_TIMEOUT_S,
        )
    except FileNotFoundError:
        raise NotPossible(
            "ssh is not installed on this machine",
            host=host.name,
            next_step="install the OpenSSH client (dnf install openssh-clients, apt install openssh-client)",
        ) from None
    except subprocess.TimeoutExpired:
        raise InventoryError(
            f"ssh -G did not answer within {ASK_TIMEOUT_S} s",
            host=host.name,
            next_step="look for a `Match exec` in ssh_config that hangs",
        ) from None
    if answer.returncode != 0:
        lines = answer.stderr.decode(errors="replace").strip().splitlines()
        raise InventoryError(
            "ssh cannot say how to reach this host",
            host=host.name,
            cause=lines[-1] if lines else f"ssh -G ended with status {answer.returncode}",
            next_step=f"mend what `{shlex.join(['ssh', '-G', *config, host.name])}` complains about",
        )
    return _existing(_expanded(parse(answer.stdout.decode(errors="surrogateescape"))))


def proxy_arguments(options: SshOptions, *, ssh_config: str = "") -> tuple[str, ...]:
    """Return the command whose stdin and stdout lead to the host, or an empty tuple for a direct connection.

    A ProxyJump becomes the ssh command that OpenSSH itself runs for it; ProxyJump wins over ProxyCommand
    only when ssh_config says so, and `ssh -G` has already decided: it prints one of the two.
    """
    if options.proxy_command:
        return ("sh", "-c", f"exec {options.proxy_command}")
    if not options.proxy_jump:
        return ()
    *before, last = options.proxy_jump.split(",")
    match = re.fullmatch(
        r"(?:ssh://)?(?:(?P<user>[^@]+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^\[\]:@]+))(?::(?P<port>[0-9]+))?/?",
        last,
    )
    hop = match and (match["v6"] or match["host"])
    if match is None or not hop or hop.startswith("-"):
        raise InventoryError(
            f"ProxyJump {last!r} cannot be read",
            host=options.alias,
            next_step="write it as [user@]host[:port] in ssh_config",
        )
    arguments = ["ssh", "-o", "BatchMode=yes"]
    arguments += ["-F", str(Path(ssh_config).expanduser())] if ssh_config else []
    arguments += ["-l", match["user"]] if match["user"] else []
    arguments += ["-p", match["port"]] if match["port"] else []
    arguments += ["-J", ",".join(before)] if before else []
    return (*arguments, "-W", f"[{options.hostname}]:{options.port}", hop)


def _paths(value: str) -> list[str]:
    """Split paths that `ssh -G` joined by blanks without quoting: a new one begins with / or ~ or ${ or %."""
    return re.split(r"\s+(?=[/~]|\$\{|%)", value)


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _expanded(options: SshOptions) -> SshOptions:
    # ssh takes the home directory from the user database, not from $HOME.
    try:
        account = pwd.getpwuid(os.getuid())
    except KeyError:
        return expand(options, home=str(Path.home()), user=str(os.getuid()))
    return expand(options, home=account.pw_dir, user=account.pw_name)


def _existing(options: SshOptions) -> SshOptions:
    def files(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(path for path in paths if Path(path).is_file())

    return replace(
        options,
        identity_files=files(options.identity_files),
        certificate_files=files(options.certificate_files),
        known_hosts_files=files(options.known_hosts_files),
    )
