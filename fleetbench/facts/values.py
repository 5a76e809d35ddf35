"""What is known about a host after one probe: plain values, or `Missing` with the reason.

A section of the probe that fails leaves a `Missing` behind and never an exception: one broken nvidia-smi
must not hide what systemd says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that could not be read. `reason` is one line, as the host printed it."""

    reason: str

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Os:
    """From /etc/os-release, uname and ldd. `glibc` is `2.34`; `family` the ID and ID_LIKE words."""

    id: str
    version: str
    name: str
    family: tuple[str, ...] = ()
    kernel: str = ""
    architecture: str = ""
    glibc: str = ""
    hostname: str = ""
    boot_id: str = ""

    @property
    def package_manager(self) -> str:
        """`dnf` on the Red Hat family, `apt` on the Debian family, else empty."""
        if {"rhel", "fedora", "centos", "rocky", "almalinux"} & set(self.family):
            return "dnf"
        return "apt" if {"debian", "ubuntu"} & set(self.family) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """One interpreter: name on PATH, version `3.12.1`, resolved path, and whether it can make venvs."""

    name: str
    version: str
    path: str = ""
    venv: bool = True
    headers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that holds GPU memory, with the systemd unit it belongs to (empty: none)."""

    pid: int
    name: str
    used_mib: int | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. Memory in MiB, power in W; None where the driver prints [N/A].

    `compute_capability` is `9.0` on NVIDIA; on AMD the gfx target (`gfx90a`) stands there.
    """

    index: int
    name: str
    uuid: str = ""
    vendor: str = "nvidia"
    memory_mib: int | None = None
    used_mib: int | None = None
    driver: str = ""
    cuda: str = ""
    compute_capability: str = ""
    power_limit_w: float | None = None
    mig: str = ""
    ecc: str = ""
    bus_id: str = ""
    numa_node: int | None = None
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """`links[i][j]` is what `nvidia-smi topo -m` prints between GPU i and j (`NV18`, `PIX`, `SYS`, `X`)."""

    links: tuple[tuple[str, ...], ...] = ()
    numa_nodes: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """State of one systemd unit, from `systemctl show`; `spec` is our hash inside the *file*,
    `running_spec` the one in the environment of the running process (empty: not running, or not ours).

    `name` is the full name (`vllm-8001.service`); `drop_ins` are files of `systemctl edit` that change it.
    `promoted` is what the file says of the trial that it was made from (`RUN/3 1,234 tok/s at c=64`);
    `servers` are the ports of the servers behind it, where it is a balancer.
    """

    name: str
    load: str = "not-found"
    active: str = "inactive"
    sub: str = "dead"
    result: str = "success"
    main_pid: int = 0
    exit_code: int = 0
    restarts: int = 0
    invocation: str = ""
    fragment: str = ""
    enabled: str = ""
    need_reload: bool = False
    spec: str = ""
    running_spec: str = ""
    gpus: str = ""
    port: int | None = None
    description: str = ""
    drop_ins: tuple[str, ...] = ()
    promoted: str = ""
    servers: tuple[int, ...] = ()

    @property
    def running(self) -> bool:
        """True while systemd holds a main process for it."""
        return self.active == "active" and self.sub == "running"

    @property
    def going(self) -> bool:
        """True while systemd runs it, starts it, or will start it again in a moment (`Restart=`)."""
        return self.active in ("active", "activating", "reloading")


@dataclass(frozen=True, slots=True, kw_only=True)
class Venv:
    """One venv below the prefix. `packages` maps distribution names (lower case) to versions.

    `complete` is true when our stamp is there: written last, after import check and `vllm --version`;
    `lock` is the hash in that stamp.
    """

    path: str
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    complete: bool = False
    lock: str = ""

    @property
    def vllm(self) -> str:
        """Version of vLLM in it, empty when there is none."""
        return self.packages.get("vllm", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A TCP socket in LISTEN, with its owner when root could see it."""

    address: str
    port: int
    pid: int | None = None
    process: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Free space of the file system that holds `path` (or its nearest existing parent)."""

    path: str
    free_mib: int
    total_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A managed file; `kind` is `file`, `directory`, `link` or `other`; `owner` is `user:group`.

    `sha256` is empty for a directory; `target` is set for a symbolic link.

    `text` is the content of small text files that we manage, for diffs; never of secrets.
    """

    path: str
    kind: str = "file"
    sha256: str = ""
    mode: int = 0
    owner: str = ""
    target: str = ""
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A service user as getent prints it."""

    name: str
    uid: int
    home: str
    shell: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Everything one probe says about one host.

    Attributes:
        tools: absolute path by program name, of the programs that are there; `tool_versions` of some (uv).
        packages: version by name, of the asked distribution packages that are installed.
        files: by path, of the asked paths that exist.
        selinux: `Enforcing`, `Permissive`, `Disabled`; firewalld: `running`, `not running`; empty: unknown.
        firewall_ports: open ports of the default zone, `8001/tcp` or `8001-8010/tcp`.
        time_sync: `yes`, `no`, or empty when nothing on the host can tell.
        time_offset_ms: how far chrony thinks the clock is off; None: unknown.
        clock_utc: the host's clock when the probe ran, seconds since the epoch.
        missing: reason by section, of every section that failed, also those behind plain fields.
    """

    host: str = ""
    root: bool = False
    os: Os | Missing = Missing("not probed")
    pythons: tuple[Python, ...] | Missing = Missing("not probed")
    tools: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tool_versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    packages: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    accounts: Mapping[str, Account] = field(default_factory=lambda: MappingProxyType({}))
    gpus: tuple[Gpu, ...] | Missing = Missing("not probed")
    topology: Topology | Missing = Missing("not probed")
    units: Mapping[str, Unit] | Missing = Missing("not probed")
    venvs: Mapping[str, Venv] | Missing = Missing("not probed")
    listeners: tuple[Listener, ...] | Missing = Missing("not probed")
    disks: tuple[Disk, ...] | Missing = Missing("not probed")
    files: Mapping[str, File] = field(default_factory=lambda: MappingProxyType({}))
    selinux: str = ""
    firewalld: str = ""
    firewall_ports: tuple[str, ...] = ()
    time_sync: str = ""
    time_offset_ms: float | None = None
    clock_utc: float = 0.0
    memory_mib: int = 0
    cpus: int = 0
    numa_nodes: int = 0
    missing: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def gpu_name(self) -> str:
        """What the GPUs are called: `NVIDIA H200`, `NVIDIA H100 NVL + NVIDIA H200`; empty: none are seen."""
        gpus = () if isinstance(self.gpus, Missing) else self.gpus
        return " + ".join(sorted({gpu.name for gpu in gpus}))

    def with_file(self, file: File) -> HostFacts:
        """Return the facts as they will be once `file` is there."""
        return replace(self, files=MappingProxyType({**self.files, file.path: file}))

    def with_unit(self, unit: Unit) -> HostFacts:
        """Return the facts as they will be once `unit` is in that state."""
        known = {} if isinstance(self.units, Missing) else self.units
        return replace(self, units=MappingProxyType({**known, unit.name: unit}))

    def with_venv(self, venv: Venv) -> HostFacts:
        """Return the facts as they will be once `venv` is there."""
        known = {} if isinstance(self.venvs, Missing) else self.venvs
        return replace(self, venvs=MappingProxyType({**known, venv.path: venv}))
