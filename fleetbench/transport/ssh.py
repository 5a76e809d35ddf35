"""SSH through Fabric: the only module that imports fabric and paramiko, so that it can be replaced.

Choices that look odd and are measured: output is read in 64 KiB chunks (Fabric's own 1,000 characters make
capture quadratic), stdin is never used (about 90 bytes a second), and `channel_timeout` is set because
nothing else ends a call to a frozen sshd.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import logging
import os
import random
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import paramiko
from fabric import Config, Connection
from fabric.runners import Remote
from invoke.exceptions import CommandTimedOut, ThreadException

from fleetbench.errors import CommandFailed, ConnectionLost, HostKeyRefused, NotReached
from fleetbench.inventory.ssh_options import proxy_arguments, resolve
from fleetbench.model import Host
from fleetbench.transport.base import CommandResult, Timeouts, bash, check, quote
from fleetbench.transport.install import INSTALL_FILE, MOST_FILE, READ_FILE, become
from fleetbench.transport.known_hosts import trusted_file
from fleetbench.transport.tunnel import Channel, tunnel

# sshd drops handshakes beyond MaxStartups (10:30:100 by default), a bastion sees them all.
# A compromised host would fill this machine's memory.
MOST_OUTPUT = 64 * 2**20
_handshakes = threading.BoundedSemaphore(8)
_LOST = (EOFError, OSError, paramiko.SSHException, CommandTimedOut)

# paramiko prints its own tracebacks from its threads; ours is the only voice on the terminal.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


class _ChunkedRemote(Remote):  # type: ignore[misc]  # fabric has no type information
    read_chunk_size = 64 * 1024
    most_bytes = MOST_OUTPUT

    def read_proc_output(self, reader: Callable[[int], bytes]) -> Iterator[str]:
        """As invoke's, but it ends with an exception, and the command with it, at `most_bytes`."""
        left = self.most_bytes
        while data := reader(self.read_chunk_size):
            left -= len(data)
            if left < 0:
                raise OverflowError
            yield self.decode(data)

    def respond(self, buffer_: list[str]) -> None:
        """Nobody watches the output; invoke would join all of it at each chunk to look for answers."""


class _Refuse(paramiko.MissingHostKeyPolicy):
    """Refuses an unknown key and remembers it, so that the message can show its fingerprint."""

    def __init__(self) -> None:
        self.key: paramiko.PKey | None = None

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        self.key = key
        raise paramiko.SSHException(f"host key of {hostname} is not known")


class SshSession:
    """One Fabric connection to one host."""

    def __init__(self, host: Host, timeouts: Timeouts | None = None) -> None:
        """Connect. NotReached (or HostKeyRefused) when that does not work."""
        self.host = host
        self.round_trips = 0
        self._timeouts = timeouts or Timeouts()
        self._options = resolve(host)
        self._refuse = _Refuse()
        self._connection = self._open()

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, as_user: str = "") -> CommandResult:
        """Run a command; any exit status is fine."""
        return self._run(argv, timeout_s=timeout_s, as_user=as_user, most_bytes=MOST_OUTPUT)

    def _run(
        self, argv: Sequence[str], *, timeout_s: float | None, as_user: str, most_bytes: int
    ) -> CommandResult:
        self.round_trips += 1
        line = quote(become(argv, login_is_root=self._options.user == "root", as_user=as_user))
        limit = timeout_s or self._timeouts.command_s
        started = time.monotonic()
        try:
            self._connection.open()
            runner = _ChunkedRemote(self._connection)
            runner.most_bytes = most_bytes
            done = runner.run(line, timeout=limit)
        except ThreadException as exc:
            inner = [one.value for one in exc.exceptions]
            if any(isinstance(one, OverflowError) for one in inner):
                raise CommandFailed(
                    f"{argv[0]} printed more than {most_bytes // 2**20} MiB",
                    host=self.host.name,
                    next_step="look at the host: no command of ours prints that much",
                ) from exc
            raise ConnectionLost(
                f"the connection broke while {argv[0]} ran", host=self.host.name, cause=_reason(inner[0])
            ) from exc
        except CommandTimedOut as exc:
            raise ConnectionLost(f"no answer to {argv[0]} within {limit:g} s", host=self.host.name) from exc
        except _LOST as exc:
            raise ConnectionLost(
                f"the connection broke while {argv[0]} ran", host=self.host.name, cause=_reason(exc)
            ) from exc
        if done.exited == -1:  # sshd closed the channel without a status: lost, not failed
            raise ConnectionLost(f"the connection broke while {argv[0]} ran", host=self.host.name)
        result = CommandResult(
            command=quote(argv),
            exit_status=done.exited,
            stdout=done.stdout,
            stderr=done.stderr,
            seconds=time.monotonic() - started,
        )
        if result.exit_status == 1 and result.stderr.startswith("sudo: "):
            raise CommandFailed(
                f"user {self._options.user} may not become root without a password",
                host=self.host.name,
                cause=result.last_line,
                next_step=f"as root there: echo '{self._options.user} ALL=(ALL) NOPASSWD: ALL'"
                " > /etc/sudoers.d/fleetbench",
            )
        return result

    def put(self, content: bytes, path: str, *, mode: int = 0o644, owner: str = "root:root") -> None:
        """Write a whole file atomically; by SFTP, because arguments show in every process list."""
        # mkdir takes the mode along; a file would be open to everybody between its two requests.
        place = f"/tmp/.fleetbench-{os.urandom(12).hex()}"  # noqa: S108  ours alone, made by us or not at all
        temporary = f"{place}/content"
        self.round_trips += 1
        try:
            sftp = self._connection.sftp()
            sftp.get_channel().settimeout(max(30.0, len(content) / 100_000))
            sftp.mkdir(place, 0o700)
            with sftp.open(temporary, "wx") as file:
                file.set_pipelined(True)
                file.write(content)
        except _LOST as exc:
            raise ConnectionLost(f"cannot send {path}", host=self.host.name, cause=_reason(exc)) from exc
        script = INSTALL_FILE + '\nrm -rf -- "${source%/*}"\n'
        try:
            check(self, bash(script, temporary, path, f"{mode:o}", owner), what=f"cannot write {path}")
        except CommandFailed:
            self.run(("rm", "-rf", "--", place))
            raise

    def get(self, path: str, *, as_user: str = "") -> bytes:
        """Return a file's content, also of files that only root may read."""
        argv = bash(READ_FILE, path, str(MOST_FILE))
        done = self._run(argv, timeout_s=600, as_user=as_user, most_bytes=2 * MOST_FILE)
        if not done.ok:
            raise CommandFailed(f"cannot read {path}", host=self.host.name, cause=done.last_line)
        try:
            return base64.b64decode(done.stdout, validate=True)
        except ValueError as exc:
            raise CommandFailed(f"cannot read {path}", host=self.host.name, cause="no base64 came") from exc

    @contextlib.contextmanager
    def forward(self, port: int, address: str = "127.0.0.1") -> Iterator[int]:
        """Give a loopback port of the controller that leads to `address`:`port` as the host sees it."""

        def channel() -> Channel:
            opened: Channel = self._connection.transport.open_channel(
                "direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=self._timeouts.channel_s
            )
            return opened

        with tunnel(channel) as local:
            yield local

    def close(self) -> None:
        """Close the connection; a broken one is closed without a word."""
        with contextlib.suppress(*_LOST):
            self._connection.close()

    def _open(self) -> Any:
        delay = 0.5
        for attempt in range(3):
            try:
                with _handshakes:
                    return self._connect()
            except paramiko.BadHostKeyException as exc:
                raise self._changed_key(exc) from exc
            except (paramiko.AuthenticationException, paramiko.PasswordRequiredException) as exc:
                raise NotReached(
                    f"{self._options.user}@{self._options.hostname} refused the login",
                    host=self.host.name,
                    cause=_reason(exc),
                    next_step=f"ssh {self._options.user}@{self._options.hostname} true",
                ) from exc
            except (EOFError, paramiko.SSHException, OSError) as exc:
                if self._refuse.key is not None:
                    raise self._unknown_key(self._refuse.key) from exc
                # A banner that does not come is usually MaxStartups: worth another try, with jitter.
                if attempt == 2 or not isinstance(exc, paramiko.SSHException | EOFError):
                    raise NotReached(
                        f"cannot connect to {self._options.hostname} port {self._options.port}",
                        host=self.host.name,
                        cause=_reason(exc),
                        next_step=f"ssh {self._ssh_arguments()} true",
                    ) from exc
            time.sleep(delay * random.uniform(0.5, 1.5))  # noqa: S311  jitter, not a secret
            delay *= 2
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _connect(self) -> Any:
        options, timeouts = self._options, self._timeouts
        config = Config(
            overrides={
                "runners": {"remote": _ChunkedRemote},
                "run": {"in_stream": False, "hide": True, "warn": True, "encoding": "utf-8"},
            },
            ssh_config=paramiko.SSHConfig(),  # empty: `ssh -G` has resolved everything already
        )
        connection = Connection(
            options.hostname,
            user=options.user,
            port=options.port,
            config=config,
            gateway=shlex.join(proxy_arguments(options, ssh_config=self.host.ssh_config)) or None,
            connect_timeout=options.connect_timeout_s or int(timeouts.connect_s),
            connect_kwargs={
                "key_filename": list(options.identity_files),
                "look_for_keys": False,
                "allow_agent": not options.identities_only,
                "banner_timeout": timeouts.connect_s,
                "auth_timeout": 2 * timeouts.connect_s,
                "channel_timeout": timeouts.channel_s,
            },
        )
        with trusted_file(options.known_hosts_files) as path:
            connection.client.load_host_keys(path)
        if options.host_key_alias:
            _know_under(connection.client, options.host_key_alias, options.hostname, options.port)
        connection.client.set_missing_host_key_policy(self._refuse)
        connection.open()
        connection.transport.set_keepalive(timeouts.keepalive_s)
        return connection

    def _unknown_key(self, key: paramiko.PKey) -> HostKeyRefused:
        files = self._options.known_hosts_files or ("~/.ssh/known_hosts",)
        name, port = self._options.hostname, self._options.port
        return HostKeyRefused(
            f"the host key of {name} is not known: {key.get_name()} {fingerprint(key)}",
            host=self.host.name,
            cause="strict host key checking; compare the fingerprint with the host's own",
            next_step=f"ssh-keyscan -H -p {port} {name} >> {files[0]}",
        )

    def _changed_key(self, exc: paramiko.BadHostKeyException) -> HostKeyRefused:
        files = self._options.known_hosts_files or ("~/.ssh/known_hosts",)
        name, port = self._options.hostname, self._options.port
        entry = name if port == 22 else f"[{name}]:{port}"
        return HostKeyRefused(
            f"THE HOST KEY OF {name} HAS CHANGED: {fingerprint(exc.key)}",
            host=self.host.name,
            cause=f"known is {fingerprint(exc.expected_key)}: a reinstalled host, or somebody in between",
            next_step=f"if it was reinstalled: ssh-keygen -R '{entry}' -f {files[0]}"
            f" && ssh-keyscan -H -p {port} {name} >> {files[0]}",
        )

    def _ssh_arguments(self) -> str:
        config = f"-F {shlex.quote(self.host.ssh_config)} " if self.host.ssh_config else ""
        return f"{config}{self.host.name}"


def fingerprint(key: paramiko.PKey) -> str:
    """Given a public key, return its fingerprint as OpenSSH prints it: `SHA256:…`."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _know_under(client: paramiko.SSHClient, alias: str, hostname: str, port: int) -> None:
    """HostKeyAlias: the keys known under that name are those of the address that is dialled."""
    name = hostname if port == 22 else f"[{hostname}]:{port}"
    keys = client.get_host_keys()
    if name in keys:
        del keys[name]
    for kind, key in (keys.lookup(alias) or {}).items():
        keys.add(name, kind, key)


def _reason(exc: BaseException) -> str:
    """One line that says why, for exceptions whose own text is empty or hides the cause."""
    inner = getattr(exc, "errors", None)  # NoValidConnectionsError keeps one error per address
    if isinstance(inner, dict) and inner:
        return str(next(iter(inner.values())))
    return str(exc) or type(exc).__name__
