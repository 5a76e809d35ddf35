"""Who may import whom, who may talk, how long a file may be: the rules of docs/architecture.md, enforced."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fleetbench"
PAGE = ROOT / "docs" / "architecture.md"

# The same table as in docs/architecture.md, from the bottom up: a part, and the parts that it uses. A part is
# a folder (with a slash) or a module; `transport.base`, the contract with a host, is a part of its own. A row
# uses rows above it only, which is what "dependencies point one way" means.
MATRIX: dict[str, str] = {
    # values and tables
    "masking": "",
    "errors": "masking",
    "whole_file": "",
    "model/": "",
    "log_lines": "",
    "releases": "model/",
    "vllm_features": "errors",
    "failure_table": "errors",
    "log_signs": "failure_table log_lines",
    "failures": "errors failure_table log_lines log_signs model/",
    "service_log": "log_lines",
    "install_output": "errors",
    "telemetry/": "",
    "transport.base": "errors model/",
    "facts/": "errors transport.base",
    "steps": "facts/",
    # what decides
    "units": "errors model/",
    "bench_command": "errors model/ vllm_features",
    "bench_program": "errors model/ vllm_features",
    "accelerators": "facts/ model/ releases",
    "release_needs": "accelerators facts/ model/ releases",
    "compatibility": "errors facts/ model/ release_needs releases",
    "resolution": "accelerators facts/ model/ release_needs releases",
    "lock": "errors resolution whole_file",
    "operations/": "errors facts/ model/ steps transport.base units",
    "preflight": "errors facts/ model/ operations/ releases",
    "plan/": "errors facts/ model/ preflight releases vllm_features",
    "provision": "accelerators compatibility facts/ lock model/ operations/ resolution steps",
    # what reads and keeps files
    "inventory/": "errors model/",
    "results/": "errors model/ whole_file",
    "drawing/": "errors",
    "report/": "drawing/ errors model/ results/ telemetry/ units whole_file",
    "export/": "errors model/ report/ results/ telemetry/ whole_file",
    "ceiling/": "errors facts/ model/ plan/ releases results/ vllm_features",
    "choice/": "errors model/ plan/ report/ results/",
    # what acts on hosts
    "transport/": "errors inventory/ model/ transport.base",
    "audit": "errors",
    "fleet": "errors model/",
    "transient": "errors steps transport.base",
    "apply": "audit errors install_output steps transient transport.base",
    "service/": "errors facts/ failures model/ service_log telemetry/ transport.base transport/ units",
    "rollback/": "errors facts/ model/ operations/ service/ steps transport/",
    "deploy": "accelerators facts/ model/ operations/ preflight rollback/ service/ steps transport/",
    "reconcile": "apply audit compatibility errors facts/ fleet lock model/ operations/ provision resolution"
    " steps transport.base",
    "bench/": "bench_command bench_program errors model/ results/ transport.base transport/ vllm_features",
    "sweep/": "audit bench/ ceiling/ deploy errors facts/ fleet inventory/ model/ plan/ preflight results/"
    " service/ service_log telemetry/ transport.base transport/ units whole_file",
    "promotion/": "accelerators deploy errors facts/ model/ operations/ plan/ preflight report/ results/"
    " rollback/ service/ service_log steps sweep/ transport/ units",
    "verify/": "bench/ ceiling/ errors facts/ report/ results/ sweep/ telemetry/ units",
    "lab/": "errors lock resolution whole_file",
    # the edge
    "table_layout": "errors",
    "console": "errors table_layout",
    "commands/": "ceiling/ choice/ console drawing/ errors export/ facts/ failures inventory/ model/ plan/"
    " report/ results/ verify/ vllm_features whole_file",
    "cli": "console errors",
    "__main__": "cli",
    "verbs/": "apply audit bench/ bench_program choice/ commands/ console deploy errors facts/ fleet"
    " inventory/ lab/ lock model/ operations/ plan/ preflight promotion/ reconcile report/ results/ rollback/"
    " service/ service_log steps sweep/ transport.base transport/ units whole_file",
    "bootstrap": "",
    "tasks": "bootstrap model/ verbs/",
}

# Commands are imported by name when they are called, which no import statement shows.
LOADED_BY_NAME = {"cli": "commands/"}

# Modules that reach beyond this process, and the only places in the lower layers that may import them.
OUTSIDE = {"subprocess", "socket", "requests", "urllib", "http", "fabric", "paramiko"}
REACHES_OUT = {
    "lock.py": "asks uv for a set of packages",
    "inventory/ssh_options.py": "asks `ssh -G` how to reach a host",
    "results/controllers.py": "writes down this machine's name",
    "drawing/drawers.py": "draws on several processors",
}
LOWER = tuple(MATRIX)[: tuple(MATRIX).index("transport/")]

SPEAKS = {
    "console.py": "the door to the terminal",
    "bootstrap.py": "runs before anything is installed, console needs rich",
    "lab/smi/__main__.py": "is nvidia-smi on a lab host, its output is its purpose",
    "bench/on_client/handover.py": "runs on a client's host: its words are the client's",
    "bench/on_client/preloaded.py": "runs on a client's host: what it says must not be said by its children",
    "lab/slowlink.py": "is a process of its own that tells its parent that it is ready",
}

LONGEST = 300
LONGER = {
    "tasks.py": (520, "one signature for each verb: invoke takes options from nothing else"),
    "fleetbench/facts/probe.sh": (400, "one round trip, so one script"),
    "fleetbench/bench/on_client/preloaded.py": (320, "travels as one text and imports nothing of ours"),
}


@cache
def _modules() -> dict[Path, str]:
    """Return every module of the product by its path below the root, with its dotted name."""
    found = {}
    for path in (*PACKAGE.rglob("*.py"), ROOT / "tasks.py"):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        found[path.relative_to(ROOT)] = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return found


def _imports(path: Path) -> Iterator[str]:
    """Yield the dotted name of each module that a file imports anywhere, also inside functions."""
    known = set(_modules().values())
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # lab/smi travels to lab hosts as a package of its own, so its imports are relative.
            package = _modules()[path].split(".")[: -node.level] if node.level else []
            source = ".".join([*package, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield inner if inner in known else source


def _part(module: str) -> str:
    """Given a dotted name, return its row in the matrix; empty for the package itself and for strangers."""
    names = module.split(".")
    if names[0] == "tasks":
        return "tasks"
    if names[0] != "fleetbench" or len(names) == 1 or names[1] == "data":
        return ""  # data/ holds tables, and one script that is sent to hosts
    if names[1:] == ["transport", "base"]:
        return "transport.base"
    return f"{names[1]}/" if (PACKAGE / names[1]).is_dir() else names[1]


@cache
def _uses() -> dict[str, frozenset[str]]:
    """Return what each part really imports."""
    found: dict[str, set[str]] = {}
    for path, module in _modules().items():
        part = _part(module)
        if part:
            found.setdefault(part, set()).update(_part(name) for name in _imports(path))
    return {part: frozenset(names - {part, ""}) for part, names in found.items()}


def test_every_part_of_the_product_has_a_row_and_every_row_is_a_part() -> None:
    assert sorted(_uses()) == sorted(MATRIX)


@pytest.mark.parametrize("part", MATRIX)
def test_a_part_imports_what_its_row_names_and_nothing_else(part: str) -> None:
    real = _uses()[part]
    assert sorted(real) == sorted(MATRIX[part].split())


@pytest.mark.parametrize("part", MATRIX)
def test_dependencies_point_one_way(part: str) -> None:
    order = list(MATRIX)
    used = [*MATRIX[part].split(), *LOADED_BY_NAME.get(part, "").split()]
    assert [name for name in used if order.index(name) >= order.index(part)] == []


def test_the_page_shows_the_same_table() -> None:
    section = PAGE.read_text("utf-8").partition("## Who may import whom")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w./]+)` \| (.*?) \|", section, re.MULTILINE)
    shown = {part: sorted(re.findall(r"`([\w./]+)`", used)) for part, used in rows}
    assert shown == {part: sorted(used.split()) for part, used in MATRIX.items()}
    assert list(shown) == list(MATRIX)


def test_only_the_ssh_transport_imports_fabric_and_paramiko() -> None:
    found = {
        str(path)
        for path in _modules()
        if {name.partition(".")[0] for name in _imports(path)} & {"fabric", "paramiko"}
    }
    assert found == {"fleetbench/transport/ssh.py"}


def test_what_decides_and_what_keeps_does_not_reach_beyond_this_process() -> None:
    found = {}
    for path, module in _modules().items():
        outside = {name.partition(".")[0] for name in _imports(path)} & OUTSIDE
        if _part(module) in LOWER and outside:
            found[str(path.relative_to("fleetbench"))] = sorted(outside)
    assert sorted(found) == sorted(REACHES_OUT), found


def _loaded(code: str) -> set[str]:
    """Run code in an interpreter of its own and return the names of all modules that it loaded."""
    show = "\nimport sys\nsys.stdout.write('\\nLOADED ' + ' '.join(sys.modules))\n"
    done = subprocess.run(
        [sys.executable, "-c", code + show], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("LOADED ")[2].split())


def test_the_offline_command_line_loads_no_transport_and_no_verb() -> None:
    loaded = _loaded(
        "import click\nfrom fleetbench import cli\n"
        "for name in cli.main.list_commands(click.Context(cli.main)):\n"
        "    assert cli.main.get_command(click.Context(cli.main), name)\n"
        # What the commands load when they are called.
        "import fleetbench.results.store, fleetbench.results.parse, fleetbench.results.render\n"
        "import fleetbench.report.files, fleetbench.report.finding, fleetbench.failures\n"
    )
    assert "fleetbench.commands.report" in loaded
    assert "fleetbench.report.charts" in loaded
    unwanted = re.compile(r"fabric|paramiko|fleetbench\.(verbs|transport\.ssh|transport\.open)(\..*)?")
    assert sorted(name for name in loaded if unwanted.fullmatch(name)) == []


HEAVY = {"agate", "altair", "csvkit", "fabric", "paramiko", "rich", "sqlalchemy", "vl_convert"}


@pytest.mark.parametrize(
    "code",
    [
        "from invoke.main import program\nprogram.run(['invoke', '--list'], exit=False)\n",
        "from invoke.main import program\nprogram.run(['invoke', '--help', 'sweep'], exit=False)\n",
        "from fleetbench.cli import main\nmain(['--help'], standalone_mode=False)\n",
        "from fleetbench.cli import main\nmain(['runs', '--help'], standalone_mode=False)\n",
    ],
    ids=["invoke --list", "invoke --help sweep", "fleetbench --help", "fleetbench runs --help"],
)
def test_a_list_of_commands_loads_nothing_heavy(code: str) -> None:
    assert sorted(_loaded(code) & HEAVY) == []


def test_only_the_console_speaks() -> None:
    found = set()
    for path in _modules():
        for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
            printed = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
            streams = isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr")
            if printed or streams:
                found.add(str(path).removeprefix("fleetbench/"))
    assert found == set(SPEAKS)


def test_files_are_short_enough_to_be_read_whole() -> None:
    files = [*_modules(), *(path.relative_to(ROOT) for path in PACKAGE.rglob("*.sh"))]
    lengths = {str(path): (ROOT / path).read_text("utf-8").count("\n") for path in files}
    limits = {name: LONGER[name][0] if name in LONGER else LONGEST for name in lengths}
    assert {name: length for name, length in lengths.items() if length > limits[name]} == {}


def test_no_module_is_called_by_a_word_that_says_nothing() -> None:
    empty = {"utils", "util", "helpers", "helper", "manager", "misc", "core"}
    assert [str(path) for path in _modules() if path.stem in empty] == []
