"""`fleetbench ceiling`: how fast a model can be on given GPUs at most, and what will hold it back."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetbench import console
from fleetbench.commands.given import inventory_directory
from fleetbench.commands.inventory import inventory_option
from fleetbench.commands.plan import read_saved_config, saved_config
from fleetbench.errors import Unreadable, UsageError, one_line
from fleetbench.inventory import load
from fleetbench.inventory.names import near_names
from fleetbench.model import Config

if TYPE_CHECKING:
    from fleetbench.ceiling.forecast import Forecast
    from fleetbench.ceiling.setting import Setting
    from fleetbench.plan.architecture import Architecture
    from fleetbench.plan.hardware import Card

_MOST_CONCURRENCY, _MOST_TOKENS, _MOST_ROWS = 1_000_000, 10_000_000, 100
_SHOWN = (
    ("concurrency", "concurrency"),
    ("fit", "room"),
    ("under way", "in_flight"),
    ("ceiling out tok/s", "ceiling_output_tps"),
    ("serial out tok/s", "serial_output_tps"),
    ("strict out tok/s", "strict_output_tps"),
    ("prefill tok/s", "prefill_input_tps"),
    ("ms/token", "token_ms"),
    ("binds", "binds"),
    ("why", "why"),
)


@click.command()
@click.argument("model_name", metavar="MODEL")
@click.option("--gpus", "words", metavar="TEXT", required=True, help='GPUs: "8x H100 80GB", "H200".')
@click.option("--tp", type=click.IntRange(1, 1024), default=1, show_default=True, help="Tensor parallel.")
@click.option("--dp", type=click.IntRange(1, 1024), default=1, show_default=True, help="Data parallel.")
@click.option("--pp", type=click.IntRange(1, 1024), default=1, show_default=True, help="Pipeline stages.")
@click.option("--units", type=click.IntRange(1, 1024), default=1, show_default=True, help="Servers.")
@click.option(
    "--concurrency", metavar="LIST", default="1,64", show_default=True, help="Requests at a time, by commas."
)
@click.option(
    "--input-len", type=click.IntRange(1, _MOST_TOKENS), default=1024, show_default=True, help="Tokens sent."
)
@click.option(
    "--output-len", type=click.IntRange(1, _MOST_TOKENS), default=1024, show_default=True, help="Tokens back."
)
@click.option("--serve-args", metavar="TEXT", default="", help="Arguments of `vllm serve` that matter.")
@click.option("--config", "config_file", metavar="FILE", default="", help="The model's config.json.")
@click.option("--vllm", "version", metavar="VERSION", default="", help="vLLM version  [default: the newest]")
@inventory_option
@click.option(
    "--format", "form", type=click.Choice(console.FORMATS), default="table", show_default=True, help="Output."
)
def ceiling(
    model_name: str,
    words: str,
    tp: int,
    dp: int,
    pp: int,
    units: int,
    concurrency: str,
    input_len: int,
    output_len: int,
    serve_args: str,
    config_file: str,
    version: str,
    directory: Path | None,
    form: str,
) -> None:
    """Compute what a configuration can come to at most: pure physics, nothing is measured or asked.

    MODEL is a name of the inventory, of a repository, or of the table of models; --config reads any other.
    The ceiling overlaps all reading and arithmetic, the serial estimate nothing; strict is what nothing can
    exceed.

    \b
    fleetbench ceiling qwen3-coder --gpus "8x H100 80GB" --tp 2 --concurrency 1,64,1000 --input-len 128
    fleetbench ceiling Llama-3.1-8B --gpus H200 --format json
    """
    from fleetbench.ceiling.forecast import forecast, newest_vllm
    from fleetbench.ceiling.setting import Setting
    from fleetbench.plan.arguments import read_arguments

    config = Config(tp=tp, dp=dp, pp=pp, units=units)
    card = _card(words, config)
    shape, given = _model(model_name, config_file, directory)
    arguments = (*given, *_split(serve_args))
    read_arguments(arguments)  # a number that is none is refused
    _refuse_misspelt(_split(serve_args))
    version = _version(version) if version else newest_vllm()
    setting = Setting(architecture=shape, card=card, config=config, words=arguments)
    found = forecast(setting, _concurrencies(concurrency), input_len, output_len, version)
    _show(model_name, setting, found, f"{input_len}/{output_len}", form)


def _show(name: str, setting: Setting, found: tuple[Forecast, ...], lengths: str, form: str) -> None:
    rows = [asdict(one) for one in found]
    if form == "json":
        about = {"model": name, "gpu": setting.card.name, "configuration": setting.config.label}
        console.print_json(
            about | {"basis": setting.basis(), "not_strict_because": list(setting.unknowns()), "rows": rows}
        )
        return
    if form == "csv":
        console.print_csv(list(rows[0]), [list(row.values()) for row in rows])
        return
    console.print_table(
        [heading for heading, _ in _SHOWN],
        [[_rounded(row[key]) for _, key in _SHOWN] for row in rows],
        title=f"{one_line(name, 80)}, {setting.config.label}, {setting.config.gpus}× {setting.card.name},"
        f" {lengths} tokens",
    )
    console.write(f"{setting.basis()}; what fits is the planner's estimate")
    for unknown in setting.unknowns():
        console.write(f"no strict ceiling: {unknown}")


def _card(words: str, config: Config) -> Card:
    from fleetbench.facts.values import Missing
    from fleetbench.plan.hardware import card_of, facts_from_words

    counted = bool(re.match(r"\s*\d{1,4}\s*[x×*]|\s*\d{1,4}\s+[A-Za-z]", words))
    facts = facts_from_words(words if counted else f"1x {words}")
    gpus = () if isinstance(facts.gpus, Missing) else facts.gpus
    if counted and len(gpus) < config.gpus:
        raise UsageError(
            f"{config.label} needs {config.gpus} GPUs, --gpus names {len(gpus)}",
            next_step="name more, or a smaller split",
        )
    card = card_of(gpus[0])
    if card is None:
        raise UsageError(f"the catalogue has no figures of {one_line(words, 60)}")
    return card


def _model(name: str, config_file: str, directory: Path | None) -> tuple[Architecture, tuple[str, ...]]:
    """The shape, and the arguments that the inventory gives its servers."""
    from fleetbench.ceiling.models import architecture_named, known

    if config_file:
        return read_saved_config(Path(config_file)), ()
    place = inventory_directory(directory)
    models = load(place).models if place.is_dir() else {}
    repo = models[name].repo if name in models else name
    arguments = models[name].serve_args if name in models else ()
    try:
        return read_saved_config(saved_config(repo)), arguments
    except Unreadable as exc:
        shape = architecture_named(repo)
        if shape is None:
            nowhere = "" if place.is_dir() else f"there is no inventory at {place}, and "
            exc.cause = f"{nowhere}the table of models has only {', '.join(known())}"
            near = _meant(repo.rstrip("/").rpartition("/")[2], (*models, *known()))
            if near:
                exc.next_step = f"did you mean {' or '.join(near)}? Else {exc.next_step}"
            raise
        return shape, arguments


def _meant(wrong: str, there: tuple[str, ...]) -> tuple[str, ...]:
    """A name that begins like it was meant before one that looks like it: qwen3-coder has sizes."""
    longer = tuple(name for name in there if wrong and name.lower().startswith(wrong.lower()))
    return longer[:2] or near_names(wrong, there, limit=2)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as exc:
        raise UsageError(f"--serve-args cannot be split into words: {exc}") from exc


def _refuse_misspelt(words: list[str]) -> None:
    """Refuse what no vLLM knows and is one of its arguments but for a slip: it would count for nothing."""
    from difflib import get_close_matches

    from fleetbench.vllm_features import feature_table

    for word in words:
        if not word.startswith("--") or feature_table().serve_flag(word) is not None:
            continue
        option = word.partition("=")[0].replace("_", "-")[:100]
        if near := get_close_matches(option, feature_table().flags["serve"], n=1, cutoff=0.9):
            raise UsageError(
                f"--serve-args: {one_line(option, 60)!r} is not known", next_step=f"did you mean {near[0]}?"
            )


def _version(text: str) -> str:
    """The version, when the table of releases has its line: of one to come nobody knows how it works."""
    from fleetbench.ceiling.forecast import newest_vllm
    from fleetbench.vllm_features import parse_version

    newest = newest_vllm()
    if parse_version(newest) < parse_version(text):
        raise UsageError(
            f"--vllm {one_line(text, 40)} is not known", next_step=f"the newest that is known is {newest}"
        )
    return text


def _concurrencies(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    numbers = [int(word) for word in words if re.fullmatch(r"[1-9]\d{0,6}", word)]
    if len(numbers) != len(words) or len(words) > _MOST_ROWS or max(numbers) > _MOST_CONCURRENCY:
        raise UsageError(
            f"--concurrency {one_line(text, 60)!r} is no list of numbers", next_step="for instance 1,8,64"
        )
    return numbers


def _rounded(value: object) -> object:
    if not isinstance(value, float):
        return value
    return round(value) if abs(value) >= 100 else round(value, 2)
