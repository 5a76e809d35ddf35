"""Which of vLLM's clients measures a workload: the Python one, or the Rust one of newer wheels. Pure.

The Rust client is a program of its own, `vllm-rs` in the package `vllm`, and not every wheel has it. It
starts in hundredths of a second and keeps up with a thousand streams; what it cannot do is left to the Python
client.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fleetbench.errors import NotPossible
from fleetbench.model import Workload
from fleetbench.vllm_features import feature_table, parse_version

# `vllm bench serve` with this in its environment imports everything and then becomes the Rust client: which
# program measures is decided here, so it is taken out.
SWITCH = "VLLM_USE_RUST_BENCH"
_OPTION = re.compile(r"^\s+(?:-\w, )?(--[a-z0-9][a-z0-9-]{0,60})", re.MULTILINE)
_DATASETS = re.compile(r"--dataset-name .{0,200}?\[possible values: ([a-z0-9_, -]{1,1000})\]", re.DOTALL)


class Program(StrEnum):
    """A bench client, in the words of the store; `preloaded` was imported before it was needed."""

    PYTHON = "python"
    PRELOADED = "python, preloaded"
    RUST = "rust"


@dataclass(frozen=True, slots=True, kw_only=True)
class RustClient:
    """The Rust client of a venv: where it is, and which options and data sets its own help names."""

    path: str
    options: frozenset[str]
    datasets: frozenset[str]


@dataclass(frozen=True, slots=True)
class Choice:
    """The program that measures, and why it is not the Rust client where that could be expected."""

    program: Program
    why: str = ""


def rust_client(path: str, help_text: str) -> RustClient | None:
    """Given where the Rust client is and the help of its `bench serve`, return it; None: it is none."""
    found = _DATASETS.search(help_text)
    options = frozenset(_OPTION.findall(help_text))
    if found is None or "--max-concurrency" not in options:
        return None
    datasets = frozenset(word.strip() for word in found[1].split(","))
    return RustClient(path=path, options=options, datasets=datasets)


def choose(workload: Workload, command: Sequence[str], version: str, rust: RustClient | None) -> Choice:
    """Return what measures `workload` with the options of `command` (an argv from `bench_command`).

    `version` is the client's vLLM, `rust` its Rust client if there is one. NotPossible when the workload asks
    for the Rust client and it cannot be.
    """
    if workload.client_program == Program.PYTHON:
        return Choice(Program.PYTHON)
    obstacle = _obstacle(workload, command, version, rust)
    if not obstacle:
        return Choice(Program.RUST)
    if workload.client_program == Program.RUST:
        raise NotPossible(
            f"the Rust client cannot measure {workload.label}",
            cause=obstacle,
            next_step='write client_program = "auto" or "python" in the workload',
        )
    return Choice(Program.PYTHON, obstacle)


def _obstacle(workload: Workload, command: Sequence[str], version: str, rust: RustClient | None) -> str:
    table = feature_table()
    if table.behaviour("bench_rust_client", parse_version(version)) != "yes":
        return f"vLLM {version} has no Rust client"
    if rust is None:
        return f"this build of vLLM {version} comes without the Rust client"
    flags = [word.partition("=")[0] for word in command if word.startswith("--")]
    name = workload.dataset
    same = name in table.rust.datasets or table.rust.same_with.get(name) in flags
    if name not in rust.datasets or not same:
        return f"the Rust client does not send dataset '{name}' as the Python client does"
    lacking = [f for f in flags if f not in rust.options or f in table.rust.ignored]
    return f"the Rust client lacks {' '.join(dict.fromkeys(lacking))}" if lacking else ""
