"""Catalogue of GPUs, as their tools name them. Data-centre rows other than the H200 are from data sheets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NvidiaCard:
    """`link` is what `topo -m` prints between two of them; `fan` the speed in percent, or N/A."""

    name: str
    memory_mib: int
    compute_capability: str
    power_w: int
    link: str
    fan: str
    memory_mhz: int
    sm_mhz: int

    @property
    def geforce(self) -> bool:
        """True for consumer cards: no ECC, no MIG, no serial number."""
        return "GeForce" in self.name


@dataclass(frozen=True)
class AmdCard:
    """`device_id` is the PCI id; `link` what `--showtopo` prints between two of them."""

    name: str
    memory_mib: int
    gfx: str
    power_w: int
    device_id: str
    link: str = "XGMI"


NVIDIA = {
    "H200": NvidiaCard("NVIDIA H200", 143771, "9.0", 700, "NV18", "N/A", 3201, 1980),
    "H100": NvidiaCard("NVIDIA H100 80GB HBM3", 81559, "9.0", 700, "NV18", "N/A", 2619, 1980),
    "H100-PCIE": NvidiaCard("NVIDIA H100 PCIe", 81559, "9.0", 350, "SYS", "N/A", 1593, 1755),
    "H20": NvidiaCard("NVIDIA H20", 97871, "9.0", 500, "NV18", "N/A", 2619, 1980),
    "B200": NvidiaCard("NVIDIA B200", 183359, "10.0", 1000, "NV18", "N/A", 3996, 1965),
    "A100": NvidiaCard("NVIDIA A100-SXM4-80GB", 81920, "8.0", 400, "NV12", "N/A", 1593, 1410),
    "A100-40": NvidiaCard("NVIDIA A100-SXM4-40GB", 40960, "8.0", 400, "NV12", "N/A", 1215, 1410),
    "A100-PCIE": NvidiaCard("NVIDIA A100 80GB PCIe", 81920, "8.0", 300, "SYS", "N/A", 1512, 1410),
    "L40S": NvidiaCard("NVIDIA L40S", 46068, "8.9", 350, "SYS", "N/A", 9001, 2520),
    "L4": NvidiaCard("NVIDIA L4", 23034, "8.9", 72, "SYS", "N/A", 6251, 2040),
    "T4": NvidiaCard("Tesla T4", 15360, "7.5", 70, "SYS", "N/A", 5001, 1590),
    "V100": NvidiaCard("Tesla V100-SXM2-32GB", 32768, "7.0", 300, "NV2", "N/A", 877, 1530),
    "RTX4090": NvidiaCard("NVIDIA GeForce RTX 4090", 24564, "8.9", 450, "PHB", "0", 10501, 3105),
    "RTX5090": NvidiaCard("NVIDIA GeForce RTX 5090", 32607, "12.0", 575, "PHB", "0", 14001, 3090),
    "RTX6000ADA": NvidiaCard("NVIDIA RTX 6000 Ada Generation", 49140, "8.9", 300, "PHB", "30", 10001, 3105),
}

AMD = {
    "MI210": AmdCard("AMD Instinct MI210", 65520, "gfx90a", 300, "0x740f"),
    "MI250X": AmdCard("AMD Instinct MI250X", 65520, "gfx90a", 560, "0x7408"),
    "MI300X": AmdCard("AMD Instinct MI300X", 196592, "gfx942", 750, "0x74a1"),
    "MI325X": AmdCard("AMD Instinct MI325X", 262128, "gfx942", 1000, "0x74a5"),
}
