"""SSH keys of the lab: one for the operator, one for each host, known before the host boots."""

from __future__ import annotations

from pathlib import Path

from fleetbench.lab.commands import run


def pair(file: Path) -> str:
    """Make an Ed25519 key unless it is there; return the public key's line."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", file.name, "-f", str(file)])
    return file.with_name(f"{file.name}.pub").read_text(encoding="ascii")


def known_hosts_line(names: tuple[str, ...], public: str) -> str:
    """Return the known_hosts line that binds names and addresses to a public key."""
    algorithm, key = public.split()[:2]
    return f"{','.join(names)} {algorithm} {key}\n"
