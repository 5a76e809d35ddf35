"""What there is: builds of vLLM, hosts, models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

EMPTY: Mapping[str, str] = MappingProxyType({})


class Device(StrEnum):
    """What a build of vLLM computes on."""

    CUDA = "cuda"
    ROCM = "rocm"
    CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Which packages make one vLLM venv, as data: CUDA, ROCm and CPU builds take the same code path.

    Attributes:
        package, version: distribution that carries vLLM, and its exact version.
        index_url: replaces PyPI when not empty.
        extra_index_urls: further indexes; `"auto"` stands for the PyTorch index that fits the driver.
        find_links: directories or pages with wheels.
        wheelhouse: directory *on the host*; when set, nothing is asked of any index.
        extras: further requirements, `name` or `name==version`.
        overrides: requirement lines that replace what packages ask for (uv `--override`).
        flashinfer: `"auto"` installs the version that this vLLM pins, `""` none, else a version.
        disk_mib: room that the finished venv needs, with some to spare.
    """

    name: str
    version: str
    device: Device = Device.CUDA
    package: str = "vllm"
    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ("auto",)
    find_links: tuple[str, ...] = ()
    wheelhouse: str = ""
    extras: tuple[str, ...] = ("huggingface_hub[cli]", "pandas")
    overrides: tuple[str, ...] = ()
    flashinfer: str = "auto"
    disk_mib: int = 20_000

    @property
    def venv_name(self) -> str:
        """Directory name of the venv: one per vLLM version and package, never upgraded in place."""
        return f"vllm-{self.version}" if self.package == "vllm" else f"{self.package}-{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine of the inventory. Connection details (user, port, key, jump) stay in ssh_config.

    Attributes:
        transport: `"ssh"`, or `"local"` for the machine that runs the command.
        address: for other hosts' clients to reach its services; empty means the SSH host name.
        ssh_config: path of an ssh_config file used instead of the user's own.
        gpu: expected GPU name (substring, any case), checked against the facts; empty: not checked.
        gpu_count: expected number of GPUs; None: not checked.
        ports, sweep_ports: first and last port for persistent units and for sweep units.
        prefix: home of the service user: `venvs/`, `venv-vllm`, `models/`, `cache/`, `runs/`.
        arch_list: `TORCH_CUDA_ARCH_LIST`; empty: derived from the GPU found.
        env: further environment of each unit on this host.
        install_env: environment of installers only (`UV_CACHE_DIR`, `PIP_CERT` …).
        proxy: `http://…` for installers; never part of a unit.
        balancer: whether nginx belongs on the host, for sweeps with several units.
    """

    name: str
    build: Build
    groups: tuple[str, ...] = ()
    transport: str = "ssh"
    address: str = ""
    ssh_config: str = ""
    gpu: str = ""
    gpu_count: int | None = None
    ports: tuple[int, int] = (8001, 8099)
    sweep_ports: tuple[int, int] = (8101, 8199)
    user: str = "vllm"
    prefix: str = "/opt/vllm"
    python: str = "python3.12"
    arch_list: str = ""
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    install_env: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    proxy: str = ""
    balancer: bool = False

    @property
    def venv(self) -> str:
        """Absolute path of the venv of this host's build."""
        return f"{self.prefix}/venvs/{self.build.venv_name}"

    @property
    def venv_link(self) -> str:
        """Absolute path of the link that units follow; switching it is atomic, so is going back."""
        return f"{self.prefix}/venv-vllm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of the inventory. `repo` is a Hugging Face name or an absolute path on the host; `hosts` is
    where a sweep of it runs when no --hosts are given."""

    name: str
    repo: str
    max_model_len: int | None = None
    serve_args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    sweep: str = ""
    hosts: str = ""
    min_vllm: str = ""
    gated: bool = False
