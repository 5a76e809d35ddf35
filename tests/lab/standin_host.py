"""Hosts that serve a stand-in of vLLM, and the real `invoke` as a process of its own in front of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from invoked import ROOT, Done, Running
from lab_under_test import own_settings
from terminal import AtTerminal

from fleetbench.lab import lab as labs
from fleetbench.lab.settings import Settings
from fleetbench.model import Host
from fleetbench.results.store import Store, open_store

STANDIN = ROOT / "tests" / "standin" / "vllm"
VERSION = "0.32.0"
BENCH_LOG = "/opt/vllm/cache/standin-bench.log"
PACE_S = 0.05
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.11 GiB"

# What `invoke provision` leaves, with the stand-in in place of vLLM. Its own input is the stand-in.
INSTALL = r"""
set -eu
id vllm >/dev/null 2>&1 || useradd --system --create-home --home-dir /opt/vllm --shell /usr/sbin/nologin vllm
venv=/opt/vllm/venvs/vllm-$1
packages=$venv/lib/python3.9/site-packages
mkdir -p "$venv/bin" "$packages"/{vllm-$1,torch-2.9.0,pandas-2.3.0}.dist-info
install -d -o root /opt/vllm
install -d -o vllm /opt/vllm/models /opt/vllm/cache
cat > "$venv/bin/vllm"
chmod 0755 "$venv/bin/vllm"
ln -sfT /usr/bin/python3 "$venv/bin/python"
echo "version = 3.9.18" > "$venv/pyvenv.cfg"
echo "stand-in" > "$venv/.fleetbench-complete"
ln -sfT "venvs/vllm-$1" /opt/vllm/venv-vllm
"""
# Everything that a test may have left on a host.
_CLEAN = r"""
keep=$2
systemctl stop 'vllm-sweep-*' 'fleetbench-*' foreign.service
[ "$keep" ] || systemctl stop 'vllm-*'
[ "$keep" ] || rm -rf /etc/systemd/system/{,multi-user.target.wants/}vllm-*
rm -rf /run/systemd/system/vllm-* /run/fleetbench
systemctl daemon-reload
systemctl reset-failed
rm -rf /opt/vllm/runs /run/fake-gpu-apps
rm -f "$1" "$1.ends" /tmp/x
exit 0
"""
_LEFT = r"""
ls -d /run/systemd/system/vllm-* /run/vllm-* /run/fleetbench/vllm-* /opt/vllm/runs/* 2>/dev/null
systemctl list-units --all --plain --no-legend 'fleetbench-*' 'vllm-sweep-*' | cut -d' ' -f1
exit 0
"""
_LISTING = r"""
ls -ARlQ -I 'systemd-private-*' --time-style=full-iso /etc/systemd/system /run/systemd/system \
  /etc/fleetbench /opt/vllm/venvs /run/fleetbench* /run/.fleetbench* /tmp 2>/dev/null | grep -v '^total'
exit 0
"""
_MODELS: Mapping[str, Mapping[str, str]] = {
    "good": {},
    "other": {"STANDIN_LOAD_S": "0.1"},
    "slow": {"STANDIN_LOAD_S": "4"},
    "paced": {"STANDIN_TOKEN_S": "0.01"},
    "calm": {"STANDIN_SPEED": "1000"},
    "loud": {"STANDIN_SPEED": "1000", "STANDIN_DISTURBED": "0.8"},
    "steady": {"STANDIN_LOAD_S": "1.5"},
    "child": {"STANDIN": "child"},
    "exit": {"STANDIN": "exit", "STANDIN_TEXT": OUT_OF_MEMORY},
    "exit-late": {"STANDIN": "exit-late", "STANDIN_LOAD_S": "1", "STANDIN_TEXT": OUT_OF_MEMORY},
    "first": {"STANDIN": "first", "STANDIN_TEXT": "RuntimeError: the kernel of the first request is broken"},
    "hang": {"STANDIN": "hang"},
    "second-exits": {
        "STANDIN": "exit-late",
        "STANDIN_GPUS": "1",
        "STANDIN_LOAD_S": "1",
        "STANDIN_TEXT": OUT_OF_MEMORY,
    },
    "second-dies": {
        "STANDIN": "later",
        "STANDIN_AFTER": "12",
        "STANDIN_GPUS": "1",
        "STANDIN_TEXT": OUT_OF_MEMORY,
    },
    "second-stalls": {"STANDIN": "stall", "STANDIN_AFTER": "15", "STANDIN_GPUS": "1"},
    "killed": {"STANDIN": "killed"},
    "exit-after-5": {"STANDIN": "exit-late", "STANDIN_LOAD_S": "5", "STANDIN_TEXT": OUT_OF_MEMORY},
    "stall": {"STANDIN": "stall", "STANDIN_AFTER": "15"},
    "narrow": {"STANDIN_TP": "1"},
    "short": {"STANDIN_MAX_LEN": "512"},
    "cached": {"STANDIN_CACHED": "6"},
    "mute": {"STANDIN_METRICS": "off"},
}
_SWEEPS = """
[sweeps.three]
parallel = [{ tp = 1 }, { tp = 2 }, { tp = 8 }]
repeats = 1
workload = { num_prompts = 10, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.one]
parallel = [{ tp = 2 }]
repeats = 1
workload = { num_prompts = 10, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.impatient]
parallel = [{ tp = 1 }]
repeats = 1
ready_timeout_s = 1
workload = { num_prompts = 10, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.watched]
parallel = [{ tp = 1 }]
repeats = 1
ready_timeout_s = 60
stall_timeout_s = 6
workload = { num_prompts = 60, max_concurrency = 2, input_len = 8, output_len = 8 }

[sweeps.pair]
parallel = [{ tp = 1 }, { tp = 2 }]
repeats = 1
workload = { num_prompts = 10, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.storm]
parallel = [{ tp = 1 }, { tp = 2 }]
repeats = 2
lease_s = 60
workload = { num_prompts = 30, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.storm-slow]                # a repeat takes longer than it takes to notice that it began, and to kill
parallel = [{ tp = 1 }, { tp = 2 }]
repeats = 2
lease_s = 60
workload = { num_prompts = 90, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.storm-brisk]
parallel = [{ tp = 1 }, { tp = 2 }]
repeats = 2
lease_s = 15
patience_s = 5
workload = { num_prompts = 30, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.long]
parallel = [{ tp = 2 }]
repeats = 1
workload = { num_prompts = 60, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.units]
parallel = [{ tp = 1, units = 2 }]
repeats = 1
stall_timeout_s = 6
workload = { num_prompts = 80, max_concurrency = 2, input_len = 8, output_len = 8 }

[sweeps.units-and-more]
parallel = [{ tp = 2 }, { tp = 1, units = 2 }, { tp = 2, units = 2 }, { tp = 2 , units = 4 }]
repeats = 1
workload = { num_prompts = 20, max_concurrency = 2, input_len = 8, output_len = 8 }

[sweeps.promoted]
parallel = [{ tp = 2 }, { tp = 1, units = 2 }, { tp = 8 }]
repeats = 1
workload = { num_prompts = 20, max_concurrency = 2, input_len = 8, output_len = 8 }

[sweeps.single]
parallel = [{ tp = 1 }]
repeats = 1
workload = { num_prompts = 10, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.packed-units]
parallel = [
  { units = 2, max_model_len = 100 }, { units = 2, max_model_len = 200 },
  { units = 2, max_model_len = 300 }, { units = 2, max_model_len = 400 },
]
repeats = 3
workload = { num_prompts = 60, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.six]
parallel = [
  { max_model_len = 100 }, { max_model_len = 200 }, { max_model_len = 300 },
  { max_model_len = 400 }, { max_model_len = 500 }, { max_model_len = 600 },
]
repeats = 1
patience_s = 8
lease_s = 60
workload = { num_prompts = 30, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.packed]
parallel = [
  { tp = 2, max_model_len = 100 }, { tp = 2, max_model_len = 200 },
  { tp = 2, max_model_len = 300 }, { tp = 2, max_model_len = 400 },
]
repeats = 3
workload = { num_prompts = 60, max_concurrency = 1, input_len = 8, output_len = 8 }

[sweeps.long-pair]
parallel = [{ tp = 2 }, { tp = 4 }]
repeats = 1
workload = { num_prompts = 60, max_concurrency = 1, input_len = 8, output_len = 8 }
"""


@dataclass(frozen=True)
class Fleet:
    """Lab hosts with the stand-in, the inventory that describes them, and a controller's directories."""

    settings: Settings
    names: tuple[str, ...]
    place: Path

    @property
    def inventory(self) -> Path:
        return self.place / "inventory"

    @property
    def runs(self) -> Path:
        return self.place / "runs"

    def begin(self, *words: str, **env: str) -> Running:
        """Type `invoke …` and return while it runs; `env` are further variables of the controller."""
        (self.place / "spoken").mkdir(exist_ok=True)
        directory = Path(tempfile.mkdtemp(dir=self.place / "spoken"))
        return Running(self.command(*words), self.variables() | env, directory)

    def at_terminal(self, *words: str, **env: str) -> AtTerminal:
        """Type `invoke …` on a terminal that shows lines and no live table, and return while it runs."""
        return AtTerminal(self.command(*words), self.variables() | {"TERM": "dumb"} | env)

    @staticmethod
    def command(*words: str) -> list[str]:
        """The command line of `invoke …`."""
        return ["env", "--default-signal=INT", sys.executable, "-m", "invoke", *words]

    def variables(self) -> dict[str, str]:
        """The environment of the controller."""
        return {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("FLEETBENCH_", "HF_", "PYTEST_")) or name == "FLEETBENCH_CACHE"
        } | {
            "FLEETBENCH_INVENTORY": str(self.inventory),
            "FLEETBENCH_RUNS": str(self.runs),
            "FLEETBENCH_LAB": self.settings.name,
        }

    def invoke(self, *words: str, timeout_s: float = 120, **env: str) -> Done:
        """Type `invoke …` and wait until it has ended."""
        return self.begin(*words, **env).done(timeout_s)

    def deploy(self, model: str = "good", *words: str, host: str = "lab-01", gpus: str = "0") -> Done:
        """Deploy a service on port 8001; it must work."""
        done = self.invoke(
            "deploy",
            "--hosts",
            host,
            "--model",
            model,
            "--gpus",
            gpus,
            "--tp",
            str(len(gpus.split(","))),
            *words,
        )
        assert done.status == 0, done.err
        return done

    def on(self, name: str, script: str, *arguments: str) -> str:
        """What a script on a host prints, asked past SSH; its status does not matter."""
        return self.enter(name, script, *arguments).stdout.strip()

    def enter(
        self, name: str, script: str, *arguments: str, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a script on a host, past SSH."""
        argv = ["bash", "-c", script, "test", *arguments]
        return labs.enter(name, argv, stdin=stdin, settings=self.settings)

    def serves(self, name: str, port: int = 8001) -> bool:
        """True when a server on the host answers a completion."""
        body = json.dumps({"model": self.model_on(name, port), "prompt": "x", "max_tokens": 3})
        ask = f"curl -s -m 5 --noproxy '*' -d \"$1\" http://127.0.0.1:{port}/v1/completions"
        return '"text": " word word word"' in self.on(name, ask, body)

    def model_on(self, name: str, port: int = 8001) -> str:
        """The model that a server on the host names; empty when none answers."""
        answer = self.on(name, f"curl -sf -m 5 --noproxy '*' http://127.0.0.1:{port}/v1/models")
        return json.loads(answer)["data"][0]["id"] if answer else ""

    def left(self, name: str) -> str:
        """What of sweeps and benches is left on a host; nothing should be."""
        return self.on(name, _LEFT)

    def listing(self, name: str) -> str:
        """Everything on a host that a command might have touched, with times."""
        return self.on(name, _LISTING)

    def bench_starts(self, name: str) -> list[str]:
        """One line `seed prompts` for each bench client that was started on a host."""
        return self.on(name, f"cat {BENCH_LOG} 2>/dev/null").splitlines()

    def bench_ends(self, name: str) -> list[str]:
        """One line `port seed completed` for each bench client that came to its end on a host."""
        return self.on(name, f"cat {BENCH_LOG}.ends 2>/dev/null").splitlines()

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """The store that the controller keeps."""
        with open_store(runs_directory=self.runs, create=False) as store:
            yield store

    def shown(self, *words: str) -> Any:
        """What an offline `fleetbench … --format json` prints, as a value."""
        done = self.fleetbench(*words, "--format", "json")
        return json.loads(done)

    def fleetbench(self, *words: str) -> str:
        """What an offline `fleetbench …` prints; it must work."""
        argv = [sys.executable, "-c", "from fleetbench.cli import main; main()", *words]
        env = os.environ | {"FLEETBENCH_RUNS": str(self.runs), "COLUMNS": "200"}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=120)
        return done.stdout

    def clean(self, *, keep_services: bool = False) -> None:
        """Take everything that a test left off hosts and controller; hosts that are off are started."""
        for name in self.names:
            labs.start(name, settings=self.settings)
            labs.net(name, "up", settings=self.settings)
            self.enter(name, _CLEAN, BENCH_LOG, "keep" if keep_services else "")
            labs.gpus(name, "4x H100", settings=self.settings)
        for directory in (self.runs, self.place / "spoken"):
            shutil.rmtree(directory, ignore_errors=True)

    def host(self, name: str) -> Host:
        """A host as the inventory describes it."""
        from fleetbench.inventory import load

        return load(self.inventory).hosts[name]


@contextlib.contextmanager
def fleet_of(count: int, place: Path, prefix: str) -> Iterator[Fleet]:
    """Boot hosts in a lab of this test process alone, with the stand-in, and take them down again."""
    settings = own_settings(prefix)
    inventory = place / "inventory"
    inventory.mkdir()
    env = {"STANDIN_BENCH_LOG": BENCH_LOG, "STANDIN_PACE_S": str(PACE_S), "STANDIN_LOAD_S": "0.2"}
    tables = [
        f'[models.{name}]\nrepo = "standin/{name}"\nmax_model_len = 1024\n'
        + "".join(f"env.{key} = {json.dumps(value)}\n" for key, value in env.items())
        for name, env in _MODELS.items()
    ]
    (inventory / "models.toml").write_text("\n".join(tables), "utf-8")
    (inventory / "sweeps.toml").write_text(_SWEEPS, "utf-8")
    build = f'[builds.standin]\nversion = "{VERSION}"\n'
    try:
        hosts = labs.up(
            count,
            gpus=["4x H100"],
            inventory=inventory,
            build_toml=build,
            defaults={"build": "standin", "env": env},
            settings=settings,
        )
        fleet = Fleet(settings, tuple(host.name for host in hosts), place)
        for name in fleet.names:
            done = fleet.enter(name, INSTALL, VERSION, stdin=STANDIN.read_text("utf-8"))
            assert done.returncode == 0, done.stderr
        yield fleet
    finally:
        labs.down(settings=settings)
