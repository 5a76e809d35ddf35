"""demo: the whole product once, on two real hosts of this machine."""

from __future__ import annotations

import time

from fleetbench import console
from fleetbench.choice.recommend import recommendations
from fleetbench.commands.report import print_report
from fleetbench.errors import Exit, FleetbenchError
from fleetbench.inventory import default_directory
from fleetbench.lab import lab as labs
from fleetbench.lab import requirements
from fleetbench.report.files import read_report, write_files
from fleetbench.report.own_entries import entries_of_run
from fleetbench.results.rows import RunKind
from fleetbench.results.store import open_store
from fleetbench.verbs.common import Options
from fleetbench.verbs.lab import down, up
from fleetbench.verbs.measuring import sweep
from fleetbench.verbs.provisioning import provision


def demo(*, keep: bool) -> Exit:
    """Lab of two hosts, provision, sweep of a tiny model, report; prints where it is and what to do next."""
    began = time.monotonic()
    requirements.install_requirements()
    inventory = default_directory()
    there = [host.name for host in labs.listing()]
    if there:
        raise FleetbenchError(
            f"a lab is up already: {', '.join(there)}",
            next_step="invoke lab down (its hosts are lost), or set FLEETBENCH_LAB to another name",
        )
    _heading("1/4  two lab hosts: real systemd, sshd, dnf, with stand-in GPUs")
    hosts = up(2, "4x H100", inventory)
    names = ",".join(host.name for host in hosts)
    options = Options(hosts=names)
    try:
        _heading(f"2/4  invoke provision --hosts {names}")
        _must(provision(options, diff=False), "provision")
        _heading("3/4  invoke sweep --model tiny --hosts lab-01 --try-all   (tp=3 is meant to fail)")
        _must(
            sweep(
                Options(hosts=hosts[0].name),
                model="tiny",
                sweep_name="",
                client="",
                resume="",
                repeats=0,
                new=True,
                try_all=True,  # without it the planner skips tp=3: the model has four attention heads
            ),
            "sweep",
        )
        _heading("4/4  fleetbench report")
        with open_store(create=False) as store:
            run = next(run for run in store.runs() if run.kind is RunKind.SWEEP)
            report, raw = read_report(store, run.id), store.directory(run.id)
        advice = recommendations(entries_of_run(report))
        paths = write_files(report, raw / "report", raw, advice)
        print_report(report, advice)
    finally:
        if not keep:
            down(inventory)
    console.write(f"\ndone in {(time.monotonic() - began) / 60:.1f} minutes; the report: {paths.markdown}")
    console.write("next: invoke demo --keep, then")
    console.write("  invoke deploy --hosts lab-01 --model tiny --port 8001 --gpus 0,1 --tp 2")
    console.write("  invoke status · invoke lab reboot lab-01 · invoke bench --hosts lab-01 --port 8001")
    console.write("  invoke lab down; then describe your own hosts in inventory/hosts.toml")
    return Exit.OK


def _must(status: Exit, what: str) -> None:
    if status is not Exit.OK:
        raise FleetbenchError(f"the demo ends here: {what} did not work", next_step="read the lines above")


def _heading(text: str) -> None:
    console.progress("")
    console.progress(f"=== {text}")
