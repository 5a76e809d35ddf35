"""What is to be measured: configurations and workloads, and the sweeps that name them."""

from __future__ import annotations

from dataclasses import dataclass


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
    """A named sweep of the inventory: configurations × starts × workloads × repeats.

    Attributes:
        parallel: `"all"` (every tp×dp that the host's GPUs allow), `"all+units"` (and every tp×units), names
            of strategies (`"tp"`, `"dp"`, `"pp"`, `"units"`: all GPUs that one way), or configurations.
        builds: builds of the inventory that serve; empty: each host's own.
        serve_args: one axis for each flag that varies; variants: one more, of whole argument lists.
        starts: servers that are started of each configuration, each measured like the first.
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
    starts: int = 1
    repeats: int = 3
    seed: int = 1
    ready_timeout_s: float = 1800
    bench_timeout_s: float = 7200
    stall_timeout_s: float = 300
    lease_s: float = 900
    patience_s: float = 900
