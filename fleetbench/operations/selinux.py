"""SELinux labels of what lies below the prefix: systemd runs what is labelled like a program."""

from __future__ import annotations

from fleetbench.facts.values import HostFacts
from fleetbench.operations.files import TextFile, written
from fleetbench.steps import Operation, Outcome, Run, Step
from fleetbench.transport.base import bash

# What we remember of it: the policy's own list is not readable text for the probe.
RECORD = "/etc/fleetbench/selinux-prefix"
# The policy knows these trees: /opt/**/bin is bin_t there.
_LABELLED = ("/opt/", "/usr/local/")
_EQUIVALENCE = 'semanage fcontext -a -e /opt "$1" || semanage fcontext -m -e /opt "$1"'


def active(facts: HostFacts) -> bool:
    """Return whether labels matter on this host."""
    return facts.selinux in ("Enforcing", "Permissive")


def labelled_like_opt(prefix: str) -> Operation:
    """A prefix outside the trees that the policy knows is labelled as if it lay in /opt.

    The rule is the policy's own equivalence and holds for what is installed later, too. `semanage` is part
    of policycoreutils-python-utils. The record is written after it: a step that broke off is done again.
    """

    def operation(facts: HostFacts) -> Outcome:
        if not active(facts) or f"{prefix}/".startswith(_LABELLED):
            return Outcome((), facts)
        recorded = written(TextFile(path=RECORD, text=f"{prefix}\n", why="SELinux labels like /opt"))(facts)
        if not recorded.steps:
            return recorded
        step = Step(
            summary=f"SELinux: label {prefix} like /opt",
            reason="the policy has no labels for programs there",
            action=Run(argv=bash(_EQUIVALENCE, prefix)),
        )
        return Outcome((step, *recorded.steps), recorded.facts)

    return operation


def relabel_step(path: str) -> Step:
    """Return the step that gives everything below a path the labels that the policy has for it.

    Files inherit the label of their directory when they are made: a venv's bin/ is no bin_t before this.
    """
    return Step(
        summary=f"SELinux: restore labels below {path}",
        reason="new files carry their directory's label, programs need their own",
        action=Run(argv=("restorecon", "-RF", "--", path), timeout_s=600),
    )
