"""nvidia-smi without arguments: the table for people, column for column."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .gpus import Box, NvidiaGpu

EDGE = f"+{'-' * 89}+"
RULE = f"+{'-' * 41}+{'-' * 24}+{'-' * 22}+"
HEAD = f"""\
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|{"=" * 41}+{"=" * 24}+{"=" * 22}|"""
PROCESSES = f"""\
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|{"=" * 89}|"""
NONE = "|  No running processes found                                                             |"


def table(gpus: Sequence[NvidiaGpu], box: Box) -> str:
    """Return the whole table."""
    lines = [
        time.strftime("%a %b %e %H:%M:%S %Y       "),
        EDGE,
        f"| NVIDIA-SMI {box.driver:<22} Driver Version: {box.driver:<14} CUDA Version: {box.cuda:<8} |",
        RULE,
        HEAD,
    ]
    for gpu in gpus:
        lines += [*_rows(gpu), RULE]
    holders = [holder for gpu in gpus for holder in gpu.holders]
    rows = [
        f"| {one.gpu:>4}   N/A  N/A {one.pid:>15}      C   {one.name[:34]:<34} {one.mib:>8}MiB |"
        for one in holders
    ]
    lines += ["", EDGE, PROCESSES, *(rows or [NONE]), EDGE]
    return "\n".join(lines) + "\n"


def _rows(gpu: NvidiaGpu) -> tuple[str, str, str]:
    name = gpu.card.name if len(gpu.card.name) <= 24 else f"{gpu.card.name[:21]}..."
    fan = "N/A" if gpu.card.fan == "N/A" else f"{gpu.card.fan:>2}%"
    errors = "Off" if gpu.card.geforce else gpu.ecc
    persistence = "On " if gpu.persistence else "Off"
    power = f"{round(gpu.draw):>13}W / {gpu.card.power_w:>4}W"
    return (
        f"| {gpu.index:>3}  {name:<24} {persistence:>9} |   {gpu.bus} Off | {errors:>20} |",
        f"| {fan} {gpu.temperature:>4}C    {gpu.state}  {power} | {gpu.used:>7}MiB / {gpu.total:>6}MiB |"
        f" {gpu.util:>6}%      Default |",
        f"| {'':<39} | {'':<22} | {gpu.mig:>20} |",
    )
