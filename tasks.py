"""The verbs that reach hosts: `invoke --list`. On a fresh checkout `python3 tasks.py VERB …` sets up first.

Each verb parses its options, calls one function of `fleetbench.verbs` and leaves with its exit status:
0 done, 1 failed, 2 changes pending (--check), 3 some hosts not reached, 130 interrupted.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from fleetbench.bootstrap import main

    sys.exit(main(sys.argv[1:]))

from collections.abc import Callable
from typing import Any

from invoke.context import Context
from invoke.tasks import task

from fleetbench.verbs import entrance

entrance.prepare()

from fleetbench.model import Config, Workload  # noqa: E402  Ctrl-C has its status while these are loaded
from fleetbench.verbs.common import Options, guarded  # noqa: E402

COMMON = {
    "hosts": "hosts of the inventory: a,b or h100-[01-08] or @group; !x leaves one out",
    "inventory": "inventory directory (default: $FLEETBENCH_INVENTORY, else inventory/)",
    "parallel": "how many hosts are worked on at the same time",
    "check": "show what would change, change nothing; exit 2 when something would",
    "format": "table, json or csv",
    "debug": "show tracebacks",
}
EVENTS = "table (a live one on a terminal), or json: one event a line on stdout"
PLAIN = "lines instead of a live table, also on a terminal"
READY = "seconds that a server may take until it answers"


def verb(*common: str, **own: str) -> Callable[..., Any]:
    """A task without short flags (`-h` would mean --hosts), with help for common options and its own."""
    return task(auto_shortflags=False, help={name: COMMON[name] for name in common} | own)


@verb("hosts", "inventory", "parallel", "format", "debug")
def hosts(
    c: Context,
    hosts: str = "@all",
    inventory: str = "",
    parallel: int = 16,
    format: str = "table",
    debug: bool = False,
) -> None:
    """Show what each host is: system, GPUs, venvs, services, free room."""
    from fleetbench.verbs.provisioning import show_hosts

    options = Options(hosts=hosts, inventory=inventory, parallel=parallel, form=format, debug=debug)
    guarded(options, lambda: show_hosts(options))


@verb(
    *COMMON,
    diff="show the text of files that change",
    build="further builds of the inventory: their venvs are added, units stay on the host's own",
    sweep="the same with all builds of a sweep",
)
def provision(
    c: Context,
    hosts: str = "",
    check: bool = False,
    diff: bool = False,
    build: str = "",
    sweep: str = "",
    inventory: str = "",
    parallel: int = 16,
    format: str = "table",
    debug: bool = False,
) -> None:
    """Make hosts ready to serve: packages, service user, one vLLM venv. Changes only what differs."""
    from fleetbench.verbs.provisioning import provision as run

    options = Options(
        hosts=hosts, inventory=inventory, parallel=parallel, check=check, form=format, debug=debug
    )
    guarded(options, lambda: run(options, diff=diff, build=build, sweep=sweep))


@verb(
    *COMMON,
    model="model of the inventory",
    port="port of the service; the unit is called vllm-PORT",
    gpus="GPU indices in PCI bus order: 0,1 or 0-3",
    tp="tensor-parallel size",
    dp="data-parallel size",
    pp="pipeline-parallel size",
    ep="expert parallelism for mixture-of-experts models",
    max_model_len="context length (default: the model's in the inventory)",
    bind="address to listen on",
    served_name="name that clients ask for (default: repo of the model)",
    open_firewall="open the port in firewalld",
    timeout=READY,
)
def deploy(
    c: Context,
    hosts: str = "",
    model: str = "",
    port: int = 8001,
    gpus: str = "",
    tp: int = 1,
    dp: int = 1,
    pp: int = 1,
    ep: bool = False,
    max_model_len: int = 0,
    bind: str = "0.0.0.0",  # noqa: S104  the source serves the network; firewalld stays closed by default
    served_name: str = "",
    open_firewall: bool = False,
    timeout: int = 1800,
    check: bool = False,
    inventory: str = "",
    parallel: int = 16,
    format: str = "table",
    debug: bool = False,
) -> None:
    """Serve a model on a port as a systemd service that comes back at boot; ends when it answers."""
    from fleetbench.verbs.services import deploy_service

    options = Options(
        hosts=hosts, inventory=inventory, parallel=parallel, check=check, form=format, debug=debug
    )
    config = Config(tp=tp, dp=dp, pp=pp, ep=ep, max_model_len=max_model_len or None)
    guarded(
        options,
        lambda: deploy_service(
            options,
            model=model,
            port=port,
            gpus=gpus,
            config=config,
            bind=bind,
            served_name=served_name,
            open_firewall=open_firewall,
            timeout_s=timeout,
        ),
    )


@verb(
    *COMMON,
    run="id of a run, the beginning of one, or latest",
    best="promote what `fleetbench recommend` chooses (the default without --trial)",
    trial="promote this trial",
    slo="with --best: what has to hold, 'ttft_p99_ms<2000,tpot_p99_ms<60'",
    objective="with --best: tokens/s, tokens/s/gpu, requests/s, goodput, cost, energy (default: tokens/s)",
    tariff="with --objective cost: what hosts cost (default: the inventory's)",
    port="port of the service (default: that of the host's service of this model, else the first free one)",
    gpus="GPUs of the service (default: those measured, else those of the service that it replaces)",
    bind="address to listen on (default: as the service that it replaces, else 0.0.0.0)",
    served_name="name that clients ask for (default: as the service that it replaces, else the model's)",
    open_firewall="open the port in firewalld",
    anyway="also a trial that is not valid, or a service that would not be what was measured",
    parallel="how many hosts are worked on at the same time (default: 1); no new one after a failure",
    timeout=READY,
)
def promote(
    c: Context,
    run: str,
    hosts: str = "",
    best: bool = False,
    trial: int = 0,
    slo: str = "",
    objective: str = "",
    tariff: str = "",
    port: int = 0,
    gpus: str = "",
    bind: str = "",
    served_name: str = "",
    open_firewall: bool = False,
    anyway: bool = False,
    timeout: int = 1800,
    check: bool = False,
    inventory: str = "",
    parallel: int = 1,
    format: str = "table",
    debug: bool = False,
) -> None:
    """Make a measured configuration the service that comes back at boot: proven, or undone."""
    from fleetbench.verbs.promoting import Wanted, asked_place
    from fleetbench.verbs.promoting import promote as do

    options = Options(
        hosts=hosts, inventory=inventory, parallel=parallel, check=check, form=format, debug=debug
    )
    guarded(
        options,
        lambda: do(
            options,
            Wanted(run=run, best=best, trial=trial, slo=slo, objective=objective, tariff=tariff),
            asked=asked_place(port, gpus, bind, served_name),
            anyway=anyway,
            open_firewall=open_firewall,
            timeout_s=timeout,
        ),
    )


@verb("hosts", "inventory", "parallel", "format", "debug")
def status(
    c: Context,
    hosts: str = "@all",
    inventory: str = "",
    parallel: int = 16,
    format: str = "table",
    debug: bool = False,
) -> None:
    """Show the vLLM services of hosts: state, boot, GPUs, port, restarts, pending restarts."""
    from fleetbench.verbs.watching import status as run

    options = Options(hosts=hosts, inventory=inventory, parallel=parallel, form=format, debug=debug)
    guarded(options, lambda: run(options))


@verb(
    "hosts",
    "inventory",
    "debug",
    port="port of the service",
    unit="any other unit of ours, by its full name",
    lines="how many lines to begin with",
    follow="keep showing new lines until Ctrl-C",
)
def logs(
    c: Context,
    hosts: str = "",
    port: int = 8001,
    unit: str = "",
    lines: int = 50,
    follow: bool = False,
    inventory: str = "",
    debug: bool = False,
) -> None:
    """Show the journal of a service."""
    from fleetbench.verbs.watching import logs as run

    options = Options(hosts=hosts, inventory=inventory, debug=debug)
    guarded(options, lambda: run(options, unit=unit, port=port, lines=lines, follow=follow))


@verb("hosts", "inventory", "format", "debug", port="port of the service", timeout=READY)
def restart(
    c: Context,
    hosts: str = "",
    port: int = 8001,
    timeout: int = 1800,
    inventory: str = "",
    format: str = "table",
    debug: bool = False,
) -> None:
    """Restart a service, host after host; each must answer a completion before the next one is touched."""
    from fleetbench.verbs.services import restart as run

    options = Options(hosts=hosts, inventory=inventory, form=format, debug=debug)
    guarded(options, lambda: run(options, port=port, timeout_s=timeout))


@verb("hosts", "inventory", "check", "format", "debug", port="port of the service")
def remove(
    c: Context,
    hosts: str = "",
    port: int = 8001,
    check: bool = False,
    inventory: str = "",
    format: str = "table",
    debug: bool = False,
) -> None:
    """Stop, disable and delete a service; its journal stays."""
    from fleetbench.verbs.services import remove as run

    options = Options(hosts=hosts, inventory=inventory, check=check, form=format, debug=debug)
    guarded(options, lambda: run(options, port=port))


@verb("hosts", "inventory", "check", "debug", yes="do not ask")
def unlock(
    c: Context,
    hosts: str = "",
    check: bool = False,
    yes: bool = False,
    inventory: str = "",
    debug: bool = False,
) -> None:
    """End another operator's lease of a host and give production back there; --check only says who has it."""
    from fleetbench.verbs.services import unlock as run

    options = Options(hosts=hosts, inventory=inventory, check=check, yes=yes, debug=debug)
    guarded(options, lambda: run(options))


@verb(
    "hosts",
    "inventory",
    "debug",
    port="port of the service to measure",
    client="inventory host that sends the load (default: the server's own)",
    dataset="random, custom, sharegpt or sonnet",
    prompts="file on this machine with the prompts; each --dataset but random needs one",
    input_len="tokens of each prompt",
    output_len="tokens of each answer",
    num_prompts="requests of each repeat",
    concurrency="requests at the same time; empty: no limit",
    rate="requests per second; 0: as fast as --concurrency allows",
    temperature="sampling temperature",
    repeats="measured repeats, each with its own seed",
    seed="base of all seeds",
    no_warmup="skip the warm-up (the first run after a start is always slow)",
    client_program="auto, python or rust: which of vLLM's clients measures (auto: rust where it can)",
    limit="seconds after which the host ends a client that hangs",
    resume="id of an interrupted run to continue",
    new="start afresh even when the same work was interrupted before",
    format=EVENTS,
    plain=PLAIN,
)
def bench(
    c: Context,
    hosts: str = "",
    port: int = 8001,
    client: str = "",
    dataset: str = "random",
    client_program: str = "auto",
    prompts: str = "",
    input_len: int = 128,
    output_len: int = 128,
    num_prompts: int = 1000,
    concurrency: str = "64",
    rate: float = 0.0,
    temperature: float = 0.0,
    repeats: int = 3,
    seed: int = 1,
    no_warmup: bool = False,
    limit: int = 7200,
    resume: str = "",
    new: bool = False,
    inventory: str = "",
    format: str = "table",
    plain: bool = False,
    debug: bool = False,
) -> None:
    """Measure a running service with `vllm bench serve`; a cut connection does no harm."""
    from fleetbench.verbs.bench import bench as run
    from fleetbench.verbs.bench_load import with_concurrency

    options = Options(hosts=hosts, inventory=inventory, form=format, debug=debug)
    workload = Workload(
        dataset=dataset,
        input_len=input_len,
        output_len=output_len,
        num_prompts=num_prompts,
        request_rate=rate or None,
        temperature=temperature,
        prompts=prompts,
        client_program=client_program,
    )
    guarded(
        options,
        lambda: run(
            options,
            port=port,
            client=client,
            workload=with_concurrency(workload, concurrency),
            repeats=repeats,
            seed=seed,
            limit_s=limit,
            warmup=not no_warmup,
            resume=resume,
            new=new,
            lines_only=plain,
        ),
    )


@verb(
    "inventory",
    "check",
    "debug",
    hosts="as for the other verbs (default: hosts of the model in the inventory)",
    model="model of the inventory",
    sweep="sweep of the inventory (default: the model's own)",
    client="inventory host that sends the load (default: each server's own)",
    repeats="measured repeats (default: the sweep's)",
    resume="id of an interrupted run to continue",
    new="start afresh even when the same work was interrupted before",
    no_prune="try also what an earlier failure of the run implies",
    pack="trials side by side on disjoint GPUs of a host, after a control that shows it does no harm",
    steps="with --check: the expected seconds of each step, and where they are known from",
    try_all="try also what the planner says cannot work",
    config="a saved config.json of the model (default: the one on each host)",
    format=EVENTS,
    plain=PLAIN,
)
def sweep(
    c: Context,
    model: str = "",
    hosts: str = "",
    sweep: str = "",
    client: str = "",
    repeats: int = 0,
    check: bool = False,
    resume: str = "",
    new: bool = False,
    no_prune: bool = False,
    pack: bool = False,
    steps: bool = False,
    try_all: bool = False,
    config: str = "",
    inventory: str = "",
    format: str = "table",
    plain: bool = False,
    debug: bool = False,
) -> None:
    """Measure a model in each configuration of a sweep; production units are borrowed and given back."""
    from fleetbench.verbs.measuring import sweep as run

    options = Options(hosts=hosts, inventory=inventory, check=check, form=format, debug=debug)
    guarded(
        options,
        lambda: run(
            options,
            model=model,
            sweep_name=sweep,
            client=client,
            resume=resume,
            repeats=repeats,
            new=new,
            prune=not no_prune,
            steps=steps,
            try_all=try_all,
            config_file=config,
            pack=pack,
            lines_only=plain,
        ),
    )


@task(
    auto_shortflags=False,
    positional=entrance.typed("lab", "action", "host", "state"),
    help={
        "action": "up, down [HOST], list, reboot HOST, net HOST down|up|KBIT, kill HOST, start HOST",
        "host": "a lab host, for example lab-01; down without one ends the whole lab",
        "state": "net: down, up, or a rate in kbit/s (0: no limit)",
        "count": "up: how many hosts",
        "gpus": "up: stand-in GPUs of each host, for example '8x H100' or '2x MI210'",
        "hard": "reboot: a power cut instead of an orderly reboot",
        "plain": "up: without the packages of vLLM (2.7 GB, fetched once)",
        "debug": COMMON["debug"],
    },
)
def lab(
    c: Context,
    action: str,
    host: str | None = None,
    state: str | None = None,
    count: int = 2,
    gpus: str = "4x H100",
    hard: bool = False,
    plain: bool = False,
    debug: bool = False,
) -> None:
    """Real hosts on this machine: `lab up --count 2`, `lab down`, `lab list`, `lab reboot lab-01`."""
    from fleetbench.verbs.lab import lab as run

    options = Options(debug=debug)
    guarded(
        options,
        lambda: run(
            action, host=host or "", state=state or "", count=count, gpus=gpus, hard=hard, plain=plain
        ),
    )


@task(auto_shortflags=False, help={"keep": "leave the lab hosts up afterwards", "debug": COMMON["debug"]})
def demo(c: Context, keep: bool = False, debug: bool = False) -> None:
    """Two lab hosts, a real vLLM on each, a sweep of a tiny model, a report. Ten minutes, needs root."""
    from fleetbench.verbs.demo import demo as run

    guarded(Options(debug=debug), lambda: run(keep=keep))


@task(
    auto_shortflags=False,
    help={"only": "unit, postgresql, browser, lab or e2e (default: all that this machine can run)"},
)
def test(c: Context, only: str = "") -> None:  # noqa: PT028  a verb, not a test function
    """Run the checks and all tests; tiers that this machine cannot run are named in one line."""
    from fleetbench.verbs.testing import test as run

    guarded(Options(), lambda: run(only))


entrance.refuse_mistyped(globals())
