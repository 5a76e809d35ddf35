"""The nouns: values only, no behaviour that reaches a host.

Reading order of one measurement: `Host` and `Model` come from the inventory, a `Sweep` names `Config`s and
a `Workload`; a `Config` on a `GpuSet` of a `Host` is a `Trial`, served by the unit that a `ServiceSpec`
renders to; one execution of `vllm bench serve` in a trial is a `Measurement`. One `invoke bench` or
`invoke sweep` is a *run*: it has an id, a row in the store and a directory `runs/<id>/`.

Units are part of the field names: `_s` seconds, `_ms` milliseconds, `_mib` MiB, `_tokens`.
"""

from fleetbench.model.fleet import EMPTY, Build, Device, Host, Model
from fleetbench.model.sweeps import Choice, Config, Sweep, Workload
from fleetbench.model.tariff import Tariff, Tariffs
from fleetbench.model.trials import Failure, GpuSet, ServiceSpec, Step, Trial, TrialState

__all__ = [
    "EMPTY",
    "Build",
    "Choice",
    "Config",
    "Device",
    "Failure",
    "GpuSet",
    "Host",
    "Model",
    "ServiceSpec",
    "Step",
    "Sweep",
    "Tariff",
    "Tariffs",
    "Trial",
    "TrialState",
    "Workload",
]
