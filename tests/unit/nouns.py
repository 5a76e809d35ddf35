"""Ready-made nouns for tests: a host with two H100 and everything in place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleetbench.facts.values import (
    Account,
    File,
    Gpu,
    GpuProcess,
    HostFacts,
    Listener,
    Os,
    Unit,
    Venv,
)
from fleetbench.model import Build, Config, Device, GpuSet, Host, Model, ServiceSpec

BUILD = Build(name="cuda", version="0.19.1")
HOST = Host(name="h100-01", build=BUILD)
MODEL = Model(name="coder", repo="Qwen/Qwen3-Coder-30B-A3B-Instruct", max_model_len=65536)


def facts(**changed: Any) -> HostFacts:
    """Facts of a provisioned host with four idle GPUs; keywords replace fields."""
    whole = HostFacts(
        host=HOST.name,
        root=True,
        os=Os(id="rocky", version="9.6", name="Rocky Linux 9.6", family=("rocky", "rhel"), glibc="2.34"),
        accounts={"vllm": Account(name="vllm", uid=990, home="/opt/vllm")},
        gpus=tuple(gpu(index) for index in range(4)),
        units={},
        venvs={HOST.venv: Venv(path=HOST.venv, packages={"vllm": "0.19.1"}, complete=True)},
        listeners=(Listener(address="0.0.0.0", port=22, pid=1, process="sshd", unit="sshd.service"),),
        files={HOST.venv_link: File(path=HOST.venv_link, kind="link", target="venvs/vllm-0.19.1")},
        disks=(),
    )
    return replace(whole, **changed)


def gpu(index: int, *holders: GpuProcess, used_mib: int = 4) -> Gpu:
    """An H100, idle unless somebody holds it."""
    return Gpu(
        index=index,
        name="NVIDIA H100 80GB HBM3",
        memory_mib=81559,
        used_mib=used_mib,
        driver="575.57.08",
        cuda="12.9",
        compute_capability="9.0",
        processes=holders,
    )


def unit(port: int, gpus: str, **changed: Any) -> Unit:
    """One of our persistent units, running and enabled."""
    whole = Unit(
        name=f"vllm-{port}.service",
        load="loaded",
        active="active",
        sub="running",
        main_pid=4000 + port,
        enabled="enabled",
        fragment=f"/etc/systemd/system/vllm-{port}.service",
        gpus=gpus,
        port=port,
    )
    return replace(whole, **changed)


def spec(port: int = 8001, gpus: tuple[int, ...] = (0, 1), **changed: Any) -> ServiceSpec:
    """The spec of a service on the first GPUs."""
    whole = ServiceSpec(
        name=f"vllm-{port}",
        model=MODEL.repo,
        port=port,
        gpus=GpuSet(gpus),
        config=Config(tp=len(gpus) or 1),
        user="vllm",
        prefix="/opt/vllm",
        venv=HOST.venv_link,
        device=Device.CUDA,
    )
    return replace(whole, **changed)
