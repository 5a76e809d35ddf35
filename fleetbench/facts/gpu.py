"""A host's GPUs and how they are connected, from whichever tools of NVIDIA and AMD answered."""

from __future__ import annotations

from dataclasses import replace

from fleetbench.facts import amd, nvidia, topology
from fleetbench.facts.fields import rows, whole
from fleetbench.facts.sections import Sections
from fleetbench.facts.values import Gpu, GpuProcess, Missing, Topology

_NVIDIA = "0x10de"
_AMD = "0x1002"
_COMPUTE_CLASSES = ("0x12", "0x0380")  # AMD Instinct; AMD's VGA controllers (0x0300) are not meant


def gpus(sections: Sections, units: dict[int, str]) -> tuple[Gpu, ...] | Missing:
    """Given the probe's sections and the unit of each pid, return the GPUs in index order.

    Empty means: no tool and no GPU on the PCI bus. Missing means: there is a tool or a GPU, and no answer.
    """
    nodes, present = _pci(sections)
    found = [_nvidia_gpus(sections, units), _amd_gpus(sections, units)]
    for answer in found:
        if isinstance(answer, tuple) and answer:
            return tuple(
                replace(gpu, numa_node=nodes.get(nvidia.bus_key(gpu.bus_id), gpu.numa_node))
                for gpu in sorted(answer, key=lambda gpu: gpu.index)
            )
    for answer, vendor, tool in zip(found, ("NVIDIA", "AMD"), ("nvidia-smi", "amd-smi"), strict=True):
        if isinstance(answer, Missing):
            return answer
        if present[vendor]:
            return Missing(f"{present[vendor]} {vendor} GPU(s) on the PCI bus, but {tool} is not installed")
    return sections.missing("pci", "probe") or ()


def links(sections: Sections) -> Topology | Missing:
    """Given the probe's sections, return the matrix between the GPUs; empty without GPU tools."""
    for name, tool in (("nvidia_topo", "nvidia-smi"), ("rocm_topo", "rocm-smi")):
        if name in sections:
            section = sections[name]
            return topology.parse(section.out) if section.ok else Missing(section.failure(tool))
    if "nvidia_query" not in sections and "amd_static" not in sections:
        return sections.missing("pci", "probe") or Topology()
    return Missing("no tool that prints the topology is installed")


def _nvidia_gpus(sections: Sections, units: dict[int, str]) -> tuple[Gpu, ...] | Missing:
    if "nvidia_query" not in sections:
        return ()
    query, printed, apps = sections["nvidia_query"], sections["nvidia_table"], sections["nvidia_apps"]
    tables = nvidia.tables(printed.out)
    table = tables[0] if tables else nvidia.Table()
    found = _one_each(nvidia.query(query.out)) if query.ok else ()
    if not found:
        named = tuple(replace(gpu, processes=_with_units(gpu.processes, units)) for gpu in table.gpus)
        return named or Missing(
            query.failure("nvidia-smi") or printed.failure("nvidia-smi") or "nvidia-smi: no GPU in its answer"
        )
    by_bus = nvidia.apps(apps.out, units) if apps.ok else {}
    by_index = {gpu.index: gpu for gpu in table.gpus}
    return tuple(
        replace(
            gpu,
            cuda=table.cuda,
            mig=by_index[gpu.index].mig if _pending(by_index.get(gpu.index)) else gpu.mig,
            processes=by_bus.get(nvidia.bus_key(gpu.bus_id), ())
            if apps.ok
            else _with_units(by_index[gpu.index].processes if gpu.index in by_index else (), units),
        )
        for gpu in found
    )


def _amd_gpus(sections: Sections, units: dict[int, str]) -> tuple[Gpu, ...] | Missing:
    if "amd_static" not in sections and "rocm_json" not in sections:
        return ()
    used = amd.used_mib(sections["amd_metric"].out)
    holders = amd.processes(sections["amd_process"].out, units)
    found = _one_each(amd.static(sections["amd_static"].out))
    if found:
        return tuple(
            replace(gpu, used_mib=used.get(gpu.index), processes=holders.get(gpu.index, ())) for gpu in found
        )
    found = _one_each(amd.rocm_json(sections["rocm_json"].out) or amd.smi_table(sections["amd_table"].out))
    if found:
        return tuple(replace(gpu, processes=holders.get(gpu.index, ())) for gpu in found)
    for table in amd.rocm_tables(sections["rocm_table"].out):
        if isinstance(table, tuple):
            return _one_each(table)
    for name, tool in (("amd_static", "amd-smi"), ("rocm_json", "rocm-smi"), ("rocm_table", "rocm-smi")):
        if name in sections and (failure := sections[name].failure(tool)):
            return Missing(failure)
    return Missing("amd-smi and rocm-smi: no GPU in their answers")


def _one_each(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Each index once: a plan must never count a GPU twice, whatever a tool printed."""
    return tuple({gpu.index: gpu for gpu in reversed(gpus)}.values())[::-1]


def _pending(gpu: Gpu | None) -> bool:
    """`Disabled*` or `Enabled*`: the change of the MIG mode waits for a reset of the GPU."""
    return gpu is not None and gpu.mig.endswith("*")


def _with_units(processes: tuple[GpuProcess, ...], units: dict[int, str]) -> tuple[GpuProcess, ...]:
    return tuple(replace(process, unit=units.get(process.pid, "")) for process in processes)


def _pci(sections: Sections) -> tuple[dict[str, int | None], dict[str, int]]:
    """NUMA node by PCI address, and how many GPUs of each maker are on the bus."""
    nodes: dict[str, int | None] = {}
    present = {"NVIDIA": 0, "AMD": 0}
    for address, device_class, vendor, node in rows(sections["pci"].out, 4):
        nodes[nvidia.bus_key(address)] = whole(node)
        present["NVIDIA"] += vendor == _NVIDIA
        present["AMD"] += vendor == _AMD and device_class.startswith(_COMPUTE_CLASSES)
    return nodes, present
