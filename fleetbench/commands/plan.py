"""`fleetbench plan`: which configurations of a sweep can work on a host, from saved facts alone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from fleetbench import console
from fleetbench.commands.inventory import inventory_option
from fleetbench.errors import Unreadable, UsageError, one_line
from fleetbench.facts.values import HostFacts, Missing
from fleetbench.inventory import Inventory, default_directory, find_model, find_sweep, load
from fleetbench.model import Build, Device, Host, Model, Sweep
from fleetbench.plan.architecture import Architecture
from fleetbench.plan.planner import Plan

_LARGEST_BYTES = 64 * 1024 * 1024
_INDEX = "model.safetensors.index.json"
_SHOWN = ("split", "verdict", "weights GiB", "KV GiB", "KV tokens", "requests", "why")


@click.command()
@click.argument("model_name", metavar="MODEL")
@click.option("--sweep", "sweep_name", metavar="NAME", default="", help="Sweep  [default: the model's own]")
@click.option("--facts", "facts_file", metavar="FILE", default="", help="Facts of a host, as runs keep them.")
@click.option("--gpus", "words", metavar="TEXT", default="", help='GPUs instead of facts: "8x H100 80GB".')
@click.option("--config", "config_file", metavar="FILE", default="", help="The model's config.json.")
@click.option(
    "--vllm", "version", metavar="VERSION", default="", help="vLLM version  [default: the sweep's or host's]"
)
@click.option("--try-all", is_flag=True, help="Plan to try what cannot fit, too.")
@click.option("--every", is_flag=True, help="Judge every split, not only those of the sweep.")
@inventory_option
@click.option(
    "--format", "form", type=click.Choice(console.FORMATS), default="table", show_default=True, help="Output."
)
def plan(
    model_name: str,
    sweep_name: str,
    facts_file: str,
    words: str,
    config_file: str,
    version: str,
    try_all: bool,
    every: bool,
    directory: Path | None,
    form: str,
) -> None:
    """Judge each configuration of a sweep: fits, tight (is tried), cannot (is skipped) or impossible.

    Nothing is asked of a host or the network. Facts lie in the folder of a run
    (runs/RUN/trial-01/facts-before.json). config.json is looked for in the model's directory and in this
    machine's Hugging Face cache when --config is not given; the index of the weights counts where it lies
    beside it.

    \b
    fleetbench plan qwen3-coder --sweep tp-dp --gpus "8x H100 80GB" --config config.json
    fleetbench plan qwen3-coder --facts runs/RUN/trial-01/facts-before.json --format json
    """
    from fleetbench.plan.planner import plan_sweep

    if bool(facts_file) == bool(words):
        raise click.UsageError("give either --facts or --gpus")
    inventory = load(directory or default_directory())
    model = find_model(inventory, model_name)
    sweep = _sweep(inventory, model, sweep_name)
    if version:  # then one version is asked about, whatever the sweep compares
        sweep = replace(sweep, builds=())
    facts = _facts(facts_file, words)
    host = _host(inventory, model, facts, version)
    found = plan_sweep(
        sweep,
        model,
        _architecture(model, config_file),
        facts,
        host,
        builds=inventory.builds,
        try_all=try_all,
        every=every,
    )
    show(found, form)


def show(found: Plan, form: str) -> None:
    """Write a plan to stdout as table, JSON or CSV."""
    from fleetbench.plan.document import COLUMNS, document, row

    if form == "json":
        console.print_json(document(found))
        return
    rows = [row(candidate) for candidate in found.candidates]
    if form == "csv":
        console.print_csv(COLUMNS, [[_cell(values[name]) for name in COLUMNS] for values in rows])
        return
    memory = f", {found.gpu_memory_gib:.1f} GiB each" if found.gpu_memory_gib is not None else ""
    console.print_table(
        _SHOWN,
        [
            (
                candidate.config.label,
                candidate.verdict.value if candidate.run else f"{candidate.verdict.value}, skipped",
                values["weights_gib"],
                values["kv_gib"],
                values["kv_tokens"],
                values["sequences_total"],
                str(candidate.reasons[0]) if candidate.reasons else "",
            )
            for candidate, values in zip(found.candidates, rows, strict=True)
        ],
        title=f"{found.model}, sweep {found.sweep}, vLLM {found.vllm}"
        f" on {found.gpu_count}× {found.gpu}{memory}",
    )
    console.write(
        f"{len(found.to_run)} of {len(found.candidates)} configurations are tried. All figures are estimates:"
        " GiB of one GPU, KV tokens of one engine, requests of all engines."
    )
    for note in found.notes:
        console.write(f"note: {note}")


def _cell(value: object) -> object:
    return "; ".join(map(str, value)) if isinstance(value, list) else value


def _sweep(inventory: Inventory, model: Model, name: str) -> Sweep:
    if name or model.sweep:
        return find_sweep(inventory, name or model.sweep)
    raise UsageError(f"model {model.name} names no sweep", next_step="give one with --sweep NAME")


def _facts(file: str, words: str) -> HostFacts:
    from fleetbench.facts.document import from_json
    from fleetbench.plan.hardware import facts_from_words

    return facts_from_words(words) if words else from_json(_read(Path(file), "facts"))


def _host(inventory: Inventory, model: Model, facts: HostFacts, version: str) -> Host:
    """The host of the facts where the inventory has it; its vLLM, or the one asked for."""
    known = inventory.hosts.get(facts.host) or inventory.hosts.get(model.hosts)
    if known is None and not version:
        raise UsageError(
            f"which vLLM? The inventory has no host {facts.host or 'of these facts'}",
            next_step="say it with --vllm VERSION",
        )
    if known is not None and known.name == facts.host:
        return replace(known, build=replace(known.build, version=version or known.build.version))
    gpus = () if isinstance(facts.gpus, Missing) else facts.gpus
    device = Device.CPU if not gpus else Device.ROCM if gpus[0].vendor == "amd" else Device.CUDA
    asked = version or (known.build.version if known is not None else "")
    return Host(name=facts.host or "?", build=Build(name="asked for", version=asked, device=device))


def _architecture(model: Model, file: str) -> Architecture:
    return read_saved_config(Path(file) if file else saved_config(model.repo))


def read_saved_config(config: Path) -> Architecture:
    """Read a model's shape from a config.json on this machine; the index of its weights counts where it lies
    beside it. Unreadable when it is no such file."""
    from fleetbench.plan.architecture import read_architecture

    index = config.with_name(_INDEX)
    return read_architecture(
        _read(config, "the model's config.json"),
        _read(index, "the index of the weights") if index.is_file() else "",
    )


def saved_config(repo: str) -> Path:
    """Return where this machine has a model's config.json: its directory, or the Hugging Face cache.
    Unreadable when it has none."""
    if repo.startswith("/"):
        places = [Path(repo) / "config.json"]
    else:
        home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface").expanduser()
        cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
        snapshots = cache / f"models--{repo.replace('/', '--')}" / "snapshots"
        places = sorted(snapshots.glob("*/config.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for place in places:
        if place.is_file():
            return place
    raise Unreadable(
        f"this machine has no config.json of {one_line(repo, 100)}",
        next_step="copy it from a host that has the model, and give it with --config FILE",
    )


def _read(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
    except OSError as exc:
        raise Unreadable(
            f"{one_line(str(path))}: {what} cannot be read", cause=exc.strerror or str(exc)
        ) from exc
    if len(content) > _LARGEST_BYTES:
        raise Unreadable(f"{one_line(str(path))} is larger than {_LARGEST_BYTES // 2**20} MiB")
    return content.decode("utf-8", "replace")
