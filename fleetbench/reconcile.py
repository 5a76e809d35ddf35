"""One host, from what it is to what the inventory says: facts, plan, apply, and the proof that it is done."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fleetbench import compatibility, lock, provision
from fleetbench.apply import Patience, Say, apply
from fleetbench.audit import AuditLog
from fleetbench.errors import NotConverged, UsageError
from fleetbench.facts import probe
from fleetbench.facts.values import HostFacts, Os
from fleetbench.fleet import Status
from fleetbench.model import Host
from fleetbench.operations.credentials import Secret
from fleetbench.resolution import resolution
from fleetbench.steps import Outcome, PutFile, Step, plan_hash
from fleetbench.transport.base import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResult:
    """What became of one host: its steps (done, or under `--check` to be done) and remarks on its build."""

    host: str
    status: Status
    steps: tuple[Step, ...] = ()
    plan: str = ""
    remarks: tuple[str, ...] = ()
    lock: str = ""

    @property
    def diff(self) -> str:
        """Every change as text: one line per step with its reason, then its diff. Never holds a secret."""
        return "".join(f"* {step.summary}  ({step.reason})\n{_shown(step)}" for step in self.steps)


def provision_host(
    open_session: Callable[[], Session],
    host: Host,
    *,
    locks: lock.LockFile,
    check: bool = False,
    hf_token: Secret | None = None,
    send_uv: bool = True,
    progress: Say = lambda _: None,
    audit: AuditLog | None = None,
    patience: Patience | None = None,
    install_timeout_s: float = 3600,
    switch: bool = True,
) -> HostResult:
    """Bring one host to the state that the inventory asks for; with `check` only say what would change.

    Args:
        open_session: connects; called again when the connection broke during a long step.
        host: the host with its build.
        locks: makes and keeps the lock of the host's packages.
        check: plan and stop.
        hf_token: the controller's Hugging Face token, None: the host's is left as it is.
        send_uv: give a host without uv the controller's own.
        progress: told one line at each step and while a long one runs.
        audit: gets one record per step.
        patience: how often to look at long steps, how long to wait for a host that is away.
        install_timeout_s: longest time for the venv.
        switch: lead the link that units follow to this venv; False: one more venv beside it.

    Raises NotPossible before anything is changed, CommandFailed at the step that fails, NotConverged when
    steps are left after all were done.
    """
    session = open_session()
    try:
        facts = _facts(session, host)
        remarks = _remarks(facts, host)
        inputs = replace(_inputs(host, facts, locks, hf_token, send_uv, install_timeout_s), switch=switch)
        outcome = provision.plan(host, facts, inputs)
        result = HostResult(
            host=host.name,
            status=Status.OK if not outcome.steps else Status.WOULD_CHANGE,
            steps=outcome.steps,
            plan=plan_hash(outcome.steps),
            remarks=remarks,
            lock=inputs.lock.path,
        )
        if check or not outcome.steps:
            return result
        session = apply(
            session, outcome.steps, progress=progress, reconnect=open_session, audit=audit, patience=patience
        )
        _verify(host, provision.plan(host, _facts(session, host), inputs))
    finally:
        session.close()
    return HostResult(
        host=host.name,
        status=Status.CHANGED,
        steps=result.steps,
        plan=result.plan,
        remarks=remarks,
        lock=result.lock,
    )


def hf_token(environment: Mapping[str, str], home: Path) -> Secret | None:
    """Return the controller's Hugging Face token: `HF_TOKEN`, else the file that `hf auth login` writes."""
    text = environment.get("HF_TOKEN", "").strip()
    if not text:
        cache = Path(environment.get("HF_HOME") or home / ".cache" / "huggingface")
        path = Path(environment.get("HF_TOKEN_PATH") or cache / "token")
        try:
            text = path.read_text("utf-8").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as exc:
            raise UsageError(
                f"cannot read the Hugging Face token in {path}", cause=str(exc), next_step="hf auth login"
            ) from exc
    if any(character.isspace() or not character.isprintable() for character in text):
        raise UsageError(
            "the Hugging Face token holds blanks or control characters", next_step="hf auth login"
        )
    return Secret(text.encode()) if text else None


def _facts(session: Session, host: Host) -> HostFacts:
    wants = provision.probe_wants(host)
    return probe.read(
        session, paths=wants.paths, packages=wants.packages, accounts=wants.accounts, disks=wants.disks
    )


def _remarks(facts: HostFacts, host: Host) -> tuple[str, ...]:
    """Refuse a build that cannot work before the lock is made, which takes a while; return the remarks."""
    problems = compatibility.check(host.build, facts, host)
    compatibility.refuse(problems, host)
    return tuple(
        f"{problem.what}{f' ({problem.next_step})' if problem.next_step else ''}" for problem in problems
    )


def _inputs(
    host: Host,
    facts: HostFacts,
    locks: lock.LockFile,
    token: Secret | None,
    send_uv: bool,
    install_timeout_s: float,
) -> provision.Inputs:
    want = resolution(host, facts)
    same_machine = isinstance(facts.os, Os) and facts.os.architecture == platform.machine()
    program = lock.uv_program() if send_uv and same_machine and platform.system() == "Linux" else b""
    return provision.Inputs(
        lock=locks.lock(want),
        resolution=want,
        hf_token=token,
        uv=program,
        install_timeout_s=install_timeout_s,
    )


def _verify(host: Host, left: Outcome) -> None:
    if left.steps:
        raise NotConverged(
            f"{len(left.steps)} steps are still to do after all were done",
            host=host.name,
            cause="; ".join(f"{step.summary}: {step.reason}" for step in left.steps[:5]),
            next_step="something else on the host undoes them (configuration management, a timer?)",
        )


def _shown(step: Step) -> str:
    if isinstance(step.action, PutFile) and step.action.secret:
        return ""
    return step.diff
