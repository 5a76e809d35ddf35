"""One venv per vLLM version, from a lock, complete or not there at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType

from fleetbench.errors import NotPossible
from fleetbench.facts.values import File, HostFacts, Missing, Venv
from fleetbench.operations import selinux
from fleetbench.operations.credentials import Secret
from fleetbench.steps import Operation, Outcome, PutFile, Run, Step

# Root's own: what the service user runs during an install is not the service user's to change.
INPUTS = "/run/fleetbench/install"
UV_PATH = "/var/lib/fleetbench/bin/uv"
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?===?([^\s;\\]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class VenvWant:
    """A venv as it should be.

    Attributes:
        python: interpreter that makes it.
        package, version: the distribution that carries vLLM, checked by `vllm --version` at the end.
        lock_text, lock_hash: every package with its version; the hash is the venv's stamp.
        indexes: option lines of a requirements file (`--index-url …`); may hold passwords.
        env: environment of the installer (caches, certificates, proxy); goes to a root-only file.
        uv: uv's program, sent along when the host has none; empty: the host's uv or pip.
    """

    path: str
    user: str
    python: str
    package: str
    version: str
    lock_text: str
    lock_hash: str
    indexes: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    uv: bytes = b""
    timeout_s: float = 3600

    @property
    def name(self) -> str:
        """Last part of the path, in the letters that a unit name may have."""
        return re.sub(r"[^A-Za-z0-9:_.-]", "_", self.path.rpartition("/")[2])

    @property
    def inputs(self) -> str:
        """Directory of the install's inputs: one per lock, so that a running install never sees another's."""
        return f"{INPUTS}/{self.name}-{self.lock_hash}"

    @property
    def unit(self) -> str:
        """Transient unit that the install runs in."""
        return f"fleetbench-install-{self.name}"


def installed(want: VenvWant) -> Operation:
    """The venv is complete and made from this lock."""

    def operation(facts: HostFacts) -> Outcome:
        there = {} if isinstance(facts.venvs, Missing) else facts.venvs
        venv = there.get(want.path)
        if venv is not None and venv.complete and venv.lock == want.lock_hash:
            return Outcome((), facts)
        _refuse_below_running_units(want, venv, facts)
        send_uv = bool(want.uv) and "uv" not in facts.tools and UV_PATH not in facts.files
        steps = (
            _inputs_directory(want),
            *_inputs(want),
            *(_uv_steps(want.uv) if send_uv else ()),
            _install(want, _reason(want, venv)),
            *((selinux.relabel_step(want.path),) if selinux.active(facts) else ()),
            Step(
                summary=f"delete {want.inputs}",
                reason="no longer needed",
                action=Run(argv=("rm", "-rf", "--", want.inputs)),
            ),
        )
        left = facts.with_venv(
            Venv(
                path=want.path,
                python=want.python.rpartition("python")[2],
                packages=MappingProxyType(_packages(want)),
                complete=True,
                lock=want.lock_hash,
            )
        )
        if send_uv:
            left = left.with_file(File(path=UV_PATH, mode=0o755, owner="root:root"))
        return Outcome(steps, left)

    return operation


def _refuse_below_running_units(want: VenvWant, venv: Venv | None, facts: HostFacts) -> None:
    """A venv that serves is not replaced: Python loads modules late, a running server would mix both."""
    if venv is None or not venv.complete or isinstance(facts.units, Missing):
        return
    serving = [unit.name for unit in facts.units.values() if unit.running and unit.name.startswith("vllm-")]
    if serving:
        raise NotPossible(
            f"{want.path} was made from another lock, and it may be what {', '.join(sorted(serving))} runs",
            host=facts.host,
            cause=f"stamp {venv.lock or 'unknown'}, lock {want.lock_hash}; a venv is never changed in place",
            next_step="stop the units first, or give the build another version",
        )


def _reason(want: VenvWant, venv: Venv | None) -> str:
    if venv is None:
        return "not there"
    if not venv.complete:
        return "half-made: an install was cut short"
    return f"made from lock {venv.lock or 'unknown'}, wanted {want.lock_hash}"


def _inputs_directory(want: VenvWant) -> Step:
    return Step(
        summary=f"directory {want.inputs}",
        reason="inputs of the install",
        action=Run(argv=("install", "-d", "-m", "0755", "--", want.inputs)),
    )


def _inputs(want: VenvWant) -> tuple[Step, ...]:
    """What the install reads. The index options may hold passwords: readable by the service user alone."""
    readable = f"{want.user}:root"
    files = (
        ("install_venv.sh", _data("operations", "install_venv.sh"), "root:root", 0o644),
        ("name_as_vllm.py", _data("data", "name_as_vllm.py"), "root:root", 0o644),
        ("requirements.txt", want.lock_text.encode(), "root:root", 0o644),
        ("indexes.txt", Secret("".join(f"{line}\n" for line in want.indexes).encode()), readable, 0o600),
    )
    return tuple(
        Step(
            summary=f"write {want.inputs}/{name}",
            reason="input of the install",
            action=PutFile(
                path=f"{want.inputs}/{name}",
                content=content,
                mode=mode,
                owner=owner,
                secret=name == "indexes.txt",
            ),
        )
        for name, content, owner, mode in files
    )


def _uv_steps(program: bytes) -> tuple[Step, ...]:
    parent = UV_PATH.rpartition("/")[0]
    return (
        Step(
            summary=f"directory {parent}",
            reason="the host has no uv",
            action=Run(argv=("install", "-d", "-m", "0755", "--", parent)),
        ),
        Step(
            summary=f"write {UV_PATH}",
            reason="the host has no uv; with it the install takes a fifth of the time",
            action=PutFile(path=UV_PATH, content=program, mode=0o755),
        ),
    )


def _install(want: VenvWant, reason: str) -> Step:
    directory = want.inputs
    return Step(
        summary=f"install {want.package} {want.version} into {want.path}",
        reason=reason,
        action=Run(
            argv=(
                *("bash", f"{directory}/install_venv.sh"),
                *(want.path, want.python, directory, want.lock_hash, want.package, want.version),
            ),
            timeout_s=want.timeout_s,
            unit=want.unit,
            user=want.user,
            env=(("FLEETBENCH_UV", UV_PATH), *want.env),
        ),
        diff="".join(f"+{line}\n" for line in want.lock_text.splitlines() if not line.startswith("#")),
    )


def _packages(want: VenvWant) -> dict[str, str]:
    """Distribution names and versions that the lock holds; vLLM is there under its own name in any case."""
    found = {re.sub(r"[-_.]+", "-", match[1]).lower(): match[2] for match in _PINNED.finditer(want.lock_text)}
    return {**found, "vllm": found.get("vllm", want.version)}


def _data(*parts: str) -> bytes:
    return resources.files("fleetbench").joinpath(*parts).read_bytes()
