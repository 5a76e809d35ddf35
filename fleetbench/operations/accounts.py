"""The service user."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from fleetbench.facts.values import Account, HostFacts
from fleetbench.steps import Operation, Outcome, Run, Step

# /sbin/nologin on the Red Hat family is the same file (usrmerge).
_SHELL = "/usr/sbin/nologin"
_NOT_YET_KNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUser:
    """A system user without a login; `home` is the prefix and is made by another operation."""

    name: str
    home: str


def exists(want: ServiceUser) -> Operation:
    """The user is there. An existing one is taken as it is: usermod fails while it runs something."""

    def operation(facts: HostFacts) -> Outcome:
        if want.name in facts.accounts:
            return Outcome((), facts)
        step = Step(
            summary=f"add system user {want.name}",
            reason="not there",
            action=Run(
                argv=(
                    *("useradd", "--system", "--user-group", "--no-create-home"),
                    *("--home-dir", want.home, "--shell", _SHELL),
                    *("--comment", "vLLM service (fleetbench)", "--", want.name),
                )
            ),
        )
        account = Account(name=want.name, uid=_NOT_YET_KNOWN, home=want.home, shell=_SHELL)
        accounts = MappingProxyType({**facts.accounts, want.name: account})
        return Outcome((step,), replace(facts, accounts=accounts))

    return operation
