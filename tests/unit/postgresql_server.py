"""A throw-away PostgreSQL of the distribution: own data directory, Unix socket only, stopped at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

OWNER = "postgres"  # initdb and postgres refuse to run as root


def find_binaries() -> Path | None:
    """Return the directory with initdb and pg_ctl, the newest version; None when there is none."""
    candidates = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda path: int(path.parent.name) if path.parent.name.isdigit() else 0,
        reverse=True,
    )
    pg_config = shutil.which("pg_config")
    if pg_config:
        shown = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        candidates.append(Path(shown.stdout.strip()))
    found = shutil.which("initdb")
    if found:
        candidates.append(Path(found).parent)
    return next(
        (path for path in candidates if (path / "initdb").exists() and (path / "pg_ctl").exists()), None
    )


def why_not() -> str:
    """Return in one line why no server can be started here; empty when one can."""
    if find_binaries() is None:
        return "PostgreSQL (initdb, pg_ctl) is not installed"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(OWNER)
        except KeyError:
            return f"PostgreSQL cannot run as root, and there is no user {OWNER}"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed"
    return ""


@contextmanager
def running_server() -> Iterator[str]:
    """Start a server; yield the URL of its `postgres` database without the database name."""
    binaries = find_binaries()
    assert binaries is not None
    home = Path(tempfile.mkdtemp(prefix="fbpg-"))  # short: a socket path has at most 107 characters
    data, log = home / "data", home / "log"
    as_owner: dict[str, object] = {}
    if os.geteuid() == 0:
        owner = pwd.getpwnam(OWNER)
        os.chown(home, owner.pw_uid, owner.pw_gid)
        as_owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}

    def call(*command: object) -> None:
        with (home / "commands").open("a+") as output:
            done = subprocess.run(
                [str(part) for part in command],
                cwd=home,
                stdout=output,
                stderr=output,
                check=False,
                **as_owner,
            )
            if done.returncode:
                output.seek(0)
                raise RuntimeError(f"{command[0]} failed:\n{output.read()}")

    try:
        call(binaries / "initdb", "-D", data, "-A", "trust", "-U", OWNER, "-E", "UTF8", "--no-sync")
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(
                f"listen_addresses = ''\nunix_socket_directories = '{home}'\nfsync = off\nport = 54321\n"
            )
        call(binaries / "pg_ctl", "-D", data, "-l", log, "-w", "-t", 60, "start")
        try:
            yield f"postgresql://{OWNER}@/{{database}}?host={quote(str(home), safe='')}&port=54321"
        finally:
            call(binaries / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)
