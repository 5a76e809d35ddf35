"""What a host needs before it can serve: the list of operations, in order. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleetbench import compatibility
from fleetbench.accelerators import arch_env, nvidia_gpus
from fleetbench.facts.values import HostFacts
from fleetbench.lock import Lock
from fleetbench.model import Device, Host
from fleetbench.operations import accounts, credentials, files, links, packages, selinux, venv
from fleetbench.resolution import Resolution, proxy_env
from fleetbench.steps import Operation, Outcome, fold

# A unit with NoNewPrivileges= cannot have nvidia-modprobe (setuid) load this on demand.
NVIDIA_UVM = files.TextFile(
    path="/etc/modules-load.d/fleetbench-nvidia.conf",
    text="# CUDA needs this module; a unit with NoNewPrivileges= cannot load it on demand.\nnvidia-uvm\n",
    why="loads nvidia-uvm at boot",
)
ETC = files.Directory(path="/etc/fleetbench")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeWants:
    """What the probe has to be asked for, beyond what it always tells."""

    paths: tuple[str, ...]
    packages: tuple[str, ...]
    accounts: tuple[str, ...]
    disks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What comes from the controller: the lock and what it was made from, the token, uv's program.

    Without `switch` the venv is made beside the others, and units go on with the one that they follow.
    """

    lock: Lock
    resolution: Resolution
    hf_token: credentials.Secret | None = None
    uv: bytes = b""
    install_timeout_s: float = 3600
    switch: bool = True


def probe_wants(host: Host) -> ProbeWants:
    """Return what a probe has to ask a host for, so that `plan` knows all it needs."""
    return ProbeWants(
        paths=(
            *(directory.path for directory in directories(host)),
            *(credentials.STORE.path, credentials.HF_TOKEN_PATH),
            *(NVIDIA_UVM.path, selinux.RECORD, venv.UV_PATH),
            *packages.LIBNUMA_PATHS,
        ),
        packages=packages.candidates(host.python),
        accounts=(host.user,),
        disks=(host.prefix,),
    )


def directories(host: Host) -> tuple[files.Directory, ...]:
    """Return the directories of a host: root's first, then the service user's below them.

    The prefix and `runs/` are root's: whoever owns a directory can put links in the place of what is in it,
    and root works there (bench clients, the venv's link). `.cache` is for libraries that know $HOME only.
    """
    owner = f"{host.user}:{host.user}" if host.user != "root" else "root:root"
    roots = (files.Directory(path=host.prefix), files.Directory(path=f"{host.prefix}/runs"), ETC)
    names = ("venvs", "models", "cache", ".cache")
    return (*roots, *(files.Directory(path=f"{host.prefix}/{name}", owner=owner) for name in names))


def operations_for(host: Host, facts: HostFacts, inputs: Inputs) -> list[Operation]:
    """Return the operations that make a host ready to serve, in order.

    The link is switched last: until the new venv is complete, units follow the old one.
    """
    return list(_operations(host, facts, inputs))


def plan(host: Host, facts: HostFacts, inputs: Inputs) -> Outcome:
    """Return all steps for a host and the facts expected after them; NotPossible when it cannot work."""
    compatibility.refuse(compatibility.check(host.build, facts, host), host)
    return fold(facts, operations_for(host, facts, inputs))


def _operations(host: Host, facts: HostFacts, inputs: Inputs) -> Iterator[Operation]:
    proxies = tuple(sorted(proxy_env(host.proxy).items()))
    yield packages.installed(host.python, host.build.device, proxies, balancer=host.balancer)
    yield accounts.exists(accounts.ServiceUser(name=host.user, home=host.prefix))
    yield files.directories(directories(host))
    yield selinux.labelled_like_opt(host.prefix)
    if host.build.device is Device.CUDA and nvidia_gpus(facts):
        yield files.written(NVIDIA_UVM)
    if inputs.hf_token is not None:
        yield credentials.stored(
            credentials.Credential(path=credentials.HF_TOKEN_PATH, content=inputs.hf_token)
        )
    yield venv.installed(venv_want(host, facts, inputs))
    if inputs.switch:
        yield links.points(links.Link(path=host.venv_link, target=f"venvs/{host.build.venv_name}"))


def venv_want(host: Host, facts: HostFacts, inputs: Inputs) -> venv.VenvWant:
    """Return the venv that a host's build asks for."""
    return venv.VenvWant(
        path=host.venv,
        user=host.user,
        python=host.python,
        package=host.build.package,
        version=host.build.version,
        lock_text=inputs.lock.text,
        lock_hash=inputs.lock.hash,
        indexes=index_options(inputs.resolution),
        env=tuple(sorted(_installer_env(host, facts).items())),
        uv=inputs.uv,
        timeout_s=inputs.install_timeout_s,
    )


def index_options(resolution: Resolution) -> tuple[str, ...]:
    """Return where packages come from, as option lines of a requirements file (pip and uv read the same)."""
    if resolution.wheelhouse:
        return ("--no-index", f"--find-links {resolution.wheelhouse}")
    return (
        *((f"--index-url {resolution.index_url}",) if resolution.index_url else ()),
        *(f"--extra-index-url {url}" for url in resolution.extra_index_urls),
        *(f"--find-links {place}" for place in resolution.find_links),
    )


def _installer_env(host: Host, facts: HostFacts) -> dict[str, str]:
    """Caches below the prefix: uv then links files into the venv instead of copying gigabytes.

    uv carries its own list of certificate authorities; a site's own one is in the system's.
    """
    return {
        "HOME": host.prefix,
        "TMPDIR": f"{host.prefix}/cache",
        "UV_CACHE_DIR": f"{host.prefix}/cache/uv",
        "UV_SYSTEM_CERTS": "1",
        **dict(arch_env(host.build, facts, host.arch_list)),
        **proxy_env(host.proxy),
        **host.install_env,
    }
