"""Prompts that come from a file: whether it can be used, and how repeats of it are kept apart.

Each repeat of such a workload sends the same prompts, and a server that has seen them answers from its prefix
cache. The client's seed only shuffles them. A salt in each request does keep them apart: prompts under
different salts share nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fleetbench.errors import UsageError, one_line
from fleetbench.model import Workload
from fleetbench.vllm_features import feature_table, parse_version

_BODY = "--extra-body"
_SHOWN = 60


def salted(workload: Workload, version: str, salt: str) -> Workload:
    """Return the workload with a salt in each request; as it is where the client's version cannot send one,
    where it says what is in a request itself, and where prompts are made anew for each seed."""
    if not _from_file(workload) or unsalted(workload, version):
        return workload
    return replace(workload, extra_args=(*workload.extra_args, _BODY, json.dumps({"cache_salt": salt})))


def unsalted(workload: Workload, version: str) -> str:
    """Return why repeats of a file's prompts cannot be kept apart, as a remark; empty when they can."""
    if not _from_file(workload):
        return ""
    flag = feature_table().flags["bench_serve"][_BODY]
    if not flag.in_version(parse_version(version)):
        why = f"the client of vLLM {version} cannot salt them ({flag.span} can)"
    elif any(word.partition("=")[0] == _BODY for word in workload.extra_args):
        why = f"extra_args of the workload have their own {_BODY}"
    else:
        return ""
    return f"the same prompts are sent in each repeat, later ones may come from the prefix cache: {why}"


def check_prompts(workloads: Sequence[Workload]) -> tuple[str, ...]:
    """Look at the files of the workloads; return what is to be said of them.

    UsageError when one cannot be read, or is not what the dataset reads: for `custom` lines of JSON with a
    `prompt`, for `sharegpt` a JSON array; others are only opened.
    """
    found: dict[str, None] = {}
    for workload in workloads:
        if not _from_file(workload):
            continue
        path = Path(workload.prompts)
        if workload.dataset != "custom":
            _check_start(path, array=workload.dataset == "sharegpt")
            continue
        count = _count_lines(path)
        if count < workload.num_prompts:
            found[
                f"{path.name} has {count} prompts for {workload.num_prompts} requests: the client sends some"
                " again, and the prefix cache answers a part of them"
            ] = None
    return tuple(found)


def _from_file(workload: Workload) -> bool:
    return bool(workload.prompts)


def _count_lines(path: Path) -> int:
    count = 0
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    _check_line(path, number, line)
                    count += 1
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    if not count:
        raise UsageError(f"the prompts file {one_line(str(path))} is empty")
    return count


def _check_line(path: Path, number: int, line: bytes) -> None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("prompt"), str):
        raise UsageError(
            f"{one_line(str(path))}:{number} is no prompt",
            cause=one_line(line[:_SHOWN].decode("utf-8", "replace")),
            next_step='each line is an object such as {"prompt": "Why?"}',
        )


def _check_start(path: Path, *, array: bool) -> None:
    """Look at the beginning only: such files have hundreds of megabytes."""
    try:
        with path.open("rb") as file:
            start = file.read(4096).lstrip()
    except OSError as exc:
        raise _unreadable(path, exc) from exc
    if array and not start.startswith(b"["):
        raise UsageError(
            f"{one_line(str(path))} is no ShareGPT file",
            cause=f"it begins with {one_line(start[:_SHOWN].decode('utf-8', 'replace')) or 'nothing'}",
            next_step='it is a JSON array of {"conversations": [{"value": …}, {"value": …}]}',
        )


def _unreadable(path: Path, exc: OSError) -> UsageError:
    return UsageError(
        f"cannot read the prompts file {one_line(str(path))}",
        cause=exc.strerror or str(exc),
        next_step="a relative path counts from the sweep's own file",
    )
