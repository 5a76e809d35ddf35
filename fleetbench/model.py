"""The nouns: values only, no behaviour that reaches a host.

Reading order of one measurement: `Host` and `Model` come from the inventory, a `Sweep` names `Config`s and
a `Workload`; a `Config` on a `GpuSet` of a `Host` is a `Trial`, served by the unit that a `ServiceSpec`
renders to; one execution of `vllm bench serve` in a trial is a `Measurement`. One `invoke bench` or
`invoke sweep` is a *run*: it has an id, a row in the store and a directory `runs/<id>/`.

Units are part of the field names: `_s` seconds, `_ms` milliseconds, `_mib` MiB, `_tokens`.
"""

from __future__ import annotations

import re
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How a model is split over GPUs and served; what a sweep varies.

    `units` is the number of independent servers on disjoint GPU sets, `build` names the build that serves
    (empty: the host's own), `variant` what tables call `serve_args` (empty: the arguments themselves).
    """

    tp: int = 1
    dp: int = 1
    pp: int = 1
    ep: bool = False
    units: int = 1
    max_model_len: int | None = None
    serve_args: tuple[str, ...] = ()
    build: str = ""
    variant: str = ""

    @property
    def gpus(self) -> int:
        """GPUs that this configuration occupies, over all units."""
        return self.tp * self.dp * self.pp * self.units

    @property
    def label(self) -> str:
        """Short name in tables: `tp=2 dp=1`, further parts only where they differ from the default."""
        parts = [f"tp={self.tp}", f"dp={self.dp}"]
        parts += [f"pp={self.pp}"] if self.pp != 1 else []
        parts += ["ep"] if self.ep else []
        parts += [f"units={self.units}"] if self.units != 1 else []
        parts += [f"len={self.max_model_len}"] if self.max_model_len is not None else []
        parts += [f"build={self.build}"] if self.build else []
        parts += [self.variant or " ".join(self.serve_args)]
        return " ".join(filter(None, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value of an axis of a sweep: the arguments of `vllm serve` that it stands for, its name in tables
    (empty: nothing to tell apart)."""

    serve_args: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What the bench client sends. Lengths in tokens; `request_rate` in requests/s (None: all at once).

    `prompts` is a file on the controller for `dataset = "custom"` or `"sharegpt"`; it is copied to the
    client. Its prompts have their own lengths; `input_len` is then what a plan counts with. `client_program`
    says which of vLLM's clients measures: `"python"`, `"rust"`, or `"auto"`, the Rust one where the venv has
    it and it can send this workload.
    """

    dataset: str = "random"
    input_len: int = 128
    output_len: int = 128
    num_prompts: int = 1000
    max_concurrency: int | None = None
    request_rate: float | None = None
    temperature: float = 0.0
    prompts: str = ""
    extra_args: tuple[str, ...] = ()
    client_program: str = "auto"

    @property
    def request_tokens(self) -> int:
        """Tokens of one request when it ends."""
        return self.input_len + self.output_len

    @property
    def label(self) -> str:
        """Short name in tables: `random 128/128 n=1000 c=64`."""
        load = f"c={self.max_concurrency}" if self.max_concurrency is not None else "open"
        rate = f" {self.request_rate:g}/s" if self.request_rate is not None else ""
        chosen = f" {self.client_program} client" if self.client_program != "auto" else ""
        return f"{self.dataset} {self.input_len}/{self.output_len} n={self.num_prompts} {load}{rate}{chosen}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A named sweep of the inventory: configurations × workloads × repeats.

    Attributes:
        parallel: `"all"` (every tp×dp that the host's GPUs allow), `"all+units"` (and every tp×units), names
            of strategies (`"tp"`, `"dp"`, `"pp"`, `"units"`: all GPUs that one way), or configurations.
        builds: builds of the inventory that serve; empty: each host's own.
        serve_args: one axis for each flag that varies; variants: one more, of whole argument lists.
        stall_timeout_s: of a server that does no work while requests wait, until it is given up.
        lease_s: after the controller was last heard of, until a host gives production back by itself.
        patience_s: a host that has not answered for so long is lost.
    """

    name: str
    parallel: str | tuple[str, ...] | tuple[Config, ...] = "all"
    max_model_len: tuple[int, ...] = ()
    builds: tuple[str, ...] = ()
    serve_args: tuple[tuple[Choice, ...], ...] = ()
    variants: tuple[Choice, ...] = ()
    workloads: tuple[Workload, ...] = (Workload(),)
    repeats: int = 3
    seed: int = 1
    ready_timeout_s: float = 1800
    bench_timeout_s: float = 7200
    stall_timeout_s: float = 300
    lease_s: float = 900
    patience_s: float = 900


@dataclass(frozen=True, slots=True)
class GpuSet:
    """GPU indices in PCI bus order (`CUDA_DEVICE_ORDER=PCI_BUS_ID`), as nvidia-smi prints them."""

    indices: tuple[int, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.indices))

    @classmethod
    def parse(cls, text: str) -> GpuSet:
        """Given `0,1` or `0-3` or both, return the set in ascending order; ValueError on anything else."""
        found: set[int] = set()
        for part in filter(None, text.replace(" ", "").split(",")):
            match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", part)
            if match is None:
                raise ValueError(f"not a GPU index or range: {part!r}")
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                raise ValueError(f"range runs backwards: {part!r}")
            found.update(range(first, last + 1))
        return cls(tuple(sorted(found)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """What a unit is rendered from; two equal specs render to the same text and hash.

    Attributes:
        name: unit name without `.service`: `vllm-8001`, or `vllm-sweep-8101` for a sweep unit.
        persistent: enabled, below /etc, restarted; a sweep unit lives in /run and is never restarted.
        bind: address the server listens on.
        credential: whether the unit loads the host's HF token.
        venv: path that ExecStart runs from (the link for persistent units, the venv itself in sweeps).
        build: name of the venv behind it: after an upgrade the spec is another one, and a restart is due.
        cache: directory below `cache/` for what it compiles; empty: the unit's own, or that of all sweeps.
    """

    name: str
    model: str
    port: int
    gpus: GpuSet
    config: Config
    user: str
    prefix: str
    venv: str
    build: str = ""
    device: Device = Device.CUDA
    served_name: str = ""
    bind: str = "0.0.0.0"  # noqa: S104  the source serves the network; firewalld stays closed by default
    serve_args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    credential: bool = False
    cache: str = ""
    persistent: bool = True

    @property
    def unit(self) -> str:
        """Full unit name."""
        return f"{self.name}.service"

    @property
    def unit_path(self) -> str:
        """Where the unit file belongs: /run for sweeps, so that a reboot alone restores production."""
        return f"{'/etc' if self.persistent else '/run'}/systemd/system/{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why something did not work: `kind` is a name of the signature table, `evidence` the decisive line."""

    kind: str
    cause: str
    evidence: str = ""
    advice: str = ""
    retryable: bool = False


class TrialState(StrEnum):
    """What became of a trial; every trial of a run ends in exactly one of the last four."""

    PENDING = "pending"
    RUNNING = "running"
    MEASURED = "measured"
    FAILED = "failed"
    IMPLIED = "implied"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One configuration on one GPU set of one host, and the workloads that are measured in it.

    `skipped` is why the planner rules it out (None: it is run), `predicted` what it expects of it. `gpus` are
    those of all its units; where these are several, `port` is the balancer's and `member_ports` are theirs.
    """

    number: int
    host: str
    gpus: GpuSet
    port: int
    config: Config
    workloads: tuple[Workload, ...]
    repeats: int
    skipped: Failure | None = None
    predicted: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    member_ports: tuple[int, ...] = ()
