"""Wishes that cannot be: each refused in three lines with cause and next step, and nothing touched."""

from __future__ import annotations

import concurrent.futures
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from invoked import Done, until
from standin_host import Fleet

from fleetbench.lab import lab as labs

DEPLOY = ("deploy", "--hosts", "lab-01", "--model", "good")
GPU = ("--gpus", "0")
BENCH = ("bench", "--hosts", "lab-01")
SWEEP = ("sweep", "--model", "good", "--hosts", "lab-01", "--sweep", "one")
REPOS = ("'\"; touch /tmp/x'", '"owner/%n"', '"$HOME/model"', '"a\\nb"')
BELOW_A_FILE, READ_ONLY = "<below a file>", "/sys/fleetbench/runs"


@dataclass(frozen=True)
class Wish:
    """What was typed, and words that the refusal must hold. `models` replaces models.toml."""

    words: tuple[str, ...]
    says: tuple[str, ...]
    status: int = 1
    runs: str = ""
    models: str = ""


WISHES = {
    "unknown model": Wish(("deploy", "--hosts", "lab-01", "--model", "god", *GPU), ('"god"', "good")),
    "no model": Wish(("deploy", "--hosts", "lab-01", *GPU), ("model",)),
    "unknown host": Wish(("status", "--hosts", "lab-09"), ("lab-09", "did you mean lab-0")),
    "unknown group": Wish(("status", "--hosts", "@labs"), ("@labs", "@lab")),
    "no hosts": Wish(("deploy", "--model", "good", *GPU), ("no hosts given", "--hosts NAME")),
    "only exclusions": Wish(("status", "--hosts", "!lab-01"), ("selects no host",)),
    "port 0": Wish((*DEPLOY, *GPU, "--port", "0"), ("--port 0 is no port",)),
    "port 70000": Wish((*DEPLOY, *GPU, "--port", "70000"), ("--port 70000 is no port", "65535")),
    "gpus nonsense": Wish((*DEPLOY, "--gpus", "0;id"), ("'0;id' cannot be read", "0,1 or 0-3")),
    "gpus backwards": Wish((*DEPLOY, "--gpus", "3-1"), ("backwards",)),
    "gpu absent": Wish((*DEPLOY, "--gpus", "7"), ("lab-01: GPU 7 does not exist", "0–3")),
    "too many gpus": Wish((*DEPLOY, "--gpus", "0,1"), ("needs 1 GPU, got 2",)),
    "no gpus": Wish(DEPLOY, ("needs 1 GPU, got 0",)),
    "tp 0": Wish((*DEPLOY, *GPU, "--tp", "0"), ("--tp 0 is too small",)),
    "port is no number": Wish((*DEPLOY, *GPU, "--port", "abc"), ("--port 'abc' is no number",)),
    "wrong format": Wish((*DEPLOY, *GPU, "--format", "xml"), ("unknown format 'xml'", "table, json or csv")),
    "served name": Wish((*DEPLOY, *GPU, "--served-name", "a\nb"), ("control character",)),
    "restart nothing": Wish(("restart", "--hosts", "lab-01", "--port", "8009"), ("does not exist",)),
    "logs of nothing": Wish(("logs", "--hosts", "lab-01", "--port", "8009"), ("has nothing of vllm-8009",)),
    "logs of -1 lines": Wish(("logs", "--hosts", "lab-01", "--lines", "-1"), ("--lines -1 is too small",)),
    "bench of nothing": Wish((*BENCH, "--port", "8009"), ("no service of ours runs on port 8009", "deploy")),
    "bench of two hosts": Wish(("bench", "--hosts", "@lab"), ("2 hosts are chosen", "name one host")),
    "bench concurrency": Wish((*BENCH, "--concurrency", "many"), ("--concurrency 'many'",)),
    "bench without prompts": Wish((*BENCH, "--num-prompts", "0"), ("--num-prompts 0 is too small",)),
    "bench from nowhere": Wish((*BENCH, "--client", "lab-77"), ("lab-77",)),
    "bench resume": Wish(("bench", "--resume", "2026-no"), ("no run",)),
    "unknown sweep": Wish((*SWEEP[:-1], "onne"), ("onne", "one")),
    "sweep without model": Wish(("sweep", "--hosts", "lab-01"), ("no model given", "--model NAME")),
    "sweep repeats": Wish((*SWEEP, "--repeats", "-1"), ("--repeats -1 is too small",)),
    "sweep from nowhere": Wish((*SWEEP, "--client", "lab-77"), ("lab-77",)),
    "runs below a file": Wish((*DEPLOY, *GPU), ("cannot write", "Not a directory"), runs=BELOW_A_FILE),
    "bench runs": Wish(BENCH, ("cannot write to", "FLEETBENCH_RUNS"), runs=BELOW_A_FILE),
    "sweep runs": Wish(SWEEP, ("cannot write to", "FLEETBENCH_RUNS"), runs=READ_ONLY),
    "remove runs": Wish(("remove", "--hosts", "lab-01"), ("cannot write",), runs=READ_ONLY),
    "broken toml": Wish(
        (*DEPLOY, *GPU), ("models.toml:2: not valid TOML", "[models.good"), models="\n[models.good"
    ),
    "hostile repos": Wish(
        (*DEPLOY, *GPU),
        tuple(f"models.toml:{line}: models.m{line}.repo: expected" for line in (2, 4, 6, 8)),
        models="".join(
            f"[models.m{2 * place}]\nrepo = {text}\n" for place, text in enumerate(REPOS, start=1)
        ),
    ),
}


def type_it(fleet: Fleet, place: Path, wish: Wish) -> Done:
    inventory = fleet.inventory
    if wish.models:
        inventory = place / "inventory"
        shutil.copytree(fleet.inventory, inventory)
        (inventory / "models.toml").write_text(wish.models, "utf-8")
    runs = str(place / "file" / "runs") if wish.runs == BELOW_A_FILE else wish.runs or str(place / "runs")
    (place / "file").write_text("a file", "utf-8")
    return fleet.invoke(*wish.words, FLEETBENCH_INVENTORY=str(inventory), FLEETBENCH_RUNS=runs)


@pytest.fixture(scope="module")
def refusals(booted_fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """What became of all wishes; the hosts must not have changed in the meantime."""
    before = [booted_fleet.listing(name) for name in booted_fleet.names]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ended = {
            name: pool.submit(type_it, booted_fleet, tmp_path_factory.mktemp("wish"), wish)
            for name, wish in WISHES.items()
        }
        done = {name: future.result() for name, future in ended.items()}
    for name, text in zip(booted_fleet.names, before, strict=True):
        assert booted_fleet.listing(name).splitlines() == text.splitlines()
    return done


@pytest.mark.parametrize("name", WISHES)
def test_it_is_refused_in_three_lines_and_nothing_is_touched(refusals: dict[str, Done], name: str) -> None:
    wish, done = WISHES[name], refusals[name]
    assert done.status == wish.status, done.err
    assert "Traceback" not in done.err
    (error,) = done.errors
    assert len(error.splitlines()) <= 3
    for words in wish.says:
        assert words in done.err
    assert done.out.count("\n") <= 2 or "failed" in done.out


def test_a_host_that_is_down_is_named_and_the_other_one_is_done(fleet: Fleet) -> None:
    labs.kill("lab-02", settings=fleet.settings)
    done = fleet.invoke("deploy", "--hosts", "@lab", "--model", "good", *GPU, "--format", "json")
    assert done.status == 3
    (error,) = done.errors
    assert error.startswith("error: lab-02: cannot connect")
    assert [(row["host"], row["outcome"]) for row in json.loads(done.out)] == [
        ("lab-01", "changed"),
        ("lab-02", "not reached"),
    ]
    assert fleet.serves("lab-01")


def test_a_login_without_the_right_to_become_root_is_told_how_to_get_it(fleet: Fleet, tmp_path: Path) -> None:
    fleet.on("lab-01", "useradd -m ops; cp -r /root/.ssh /home/ops/; chown -R ops /home/ops/.ssh")
    inventory = tmp_path / "inventory"
    shutil.copytree(fleet.inventory, inventory)
    for file in ("hosts.toml", "ssh_config"):
        path = inventory / "lab" / file
        text = path.read_text("utf-8").replace(str(fleet.inventory), str(inventory))
        path.write_text(text.replace("User root", "User ops"), "utf-8")
    before = fleet.listing("lab-01")
    done = fleet.invoke(*DEPLOY, *GPU, FLEETBENCH_INVENTORY=str(inventory))
    assert done.status == 1
    (error,) = done.errors
    assert error.startswith("error: lab-01: user ops may not become root without a password\n  cause: sudo: ")
    assert "/etc/sudoers.d" in error.splitlines()[2]
    assert fleet.listing("lab-01") == before
    fleet.on("lab-01", "userdel -r ops")


def test_a_driver_that_does_not_answer_is_named(fleet: Fleet) -> None:
    labs.gpus("lab-01", "broken=1|4x H100", settings=fleet.settings)
    done = fleet.invoke(*DEPLOY, *GPU)
    assert done.status == 1
    assert done.errors[0].startswith("error: lab-01: no GPU can be seen\n  cause: ")
    assert "NVIDIA driver" in done.errors[0]


def test_a_host_on_which_units_cannot_be_written_keeps_what_it_has(fleet: Fleet) -> None:
    fleet.deploy("good")
    pid = fleet.on("lab-01", "systemctl show vllm-8001 -P MainPID")
    place = "/etc/systemd/system"
    fleet.on("lab-01", f"mount --bind {place} {place} && mount -o remount,bind,ro {place}")
    try:
        done = fleet.invoke("deploy", "--hosts", "lab-01", "--model", "other", *GPU)
        fresh = fleet.invoke(*DEPLOY, "--gpus", "1", "--port", "8002")
    finally:
        fleet.on("lab-01", f"umount {place}")
    assert (done.status, fresh.status) == (1, 1)
    assert "Read-only file system" in done.errors[0]
    assert "(the service runs on as before)" in done.errors[0]
    assert "(nothing was changed)" in fresh.errors[0]
    assert fleet.on("lab-01", "systemctl show vllm-8001 -P MainPID") == pid
    assert fleet.on("lab-01", f"ls {place} | grep vllm") == "vllm-8001.service"
    assert fleet.model_on("lab-01") == "standin/good"


@pytest.mark.parametrize("hosts", ["lab-02", "@lab"])
def test_ctrl_c_while_it_connects_ends_it_at_once_without_a_traceback(fleet: Fleet, hosts: str) -> None:
    labs.net("lab-02", "down", settings=fleet.settings)
    asking = fleet.begin("status", "--hosts", hosts)
    address = fleet.settings.address(2)
    until(lambda: asking.connects_to(address))
    asking.interrupt()
    done = asking.done(30)
    assert done.status == 130
    assert done.errors == ["error: interrupted"]
    assert "Traceback" not in done.err


def test_ctrl_c_while_modules_are_loaded_ends_it_silently(fleet: Fleet) -> None:
    starting = fleet.begin("status", "--hosts", "lab-01", PYTHONPROFILEIMPORTTIME="1")
    starting.wait_for("fleetbench.verbs.entrance")
    starting.interrupt()
    done = starting.done(30)
    assert done.status == 130
    assert "Traceback" not in done.err
