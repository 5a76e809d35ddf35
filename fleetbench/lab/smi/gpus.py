"""/etc/fake-gpus and what follows from it: which GPUs there are, and how full each one is.

    driver=580.159.04 cuda=13.0                     # options of the whole host
    8x H100 used=70000 util=97 link=NV18 mig=Disabled ecc=0

Options: driver, cuda, broken=1 (the driver does not answer), delay=SECONDS (it answers late), held=MiB (what
a server holds on each of its GPUs, 60000), cpus=N. Per GPU: mem=MiB, used=MiB, util=%, link, mig, ecc, mhz
(its clock under load), throttle=MASK (hexadecimal bits of what holds it back under load: 40 is heat).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .cards import AMD, NVIDIA, AmdCard, NvidiaCard

DEFAULT_HELD_MIB = 60_000


@dataclass(frozen=True)
class Slot:
    """One line of the file, once per GPU: the key of its card and its options."""

    card: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class Box:
    """The whole file, with the host's name, which makes serial numbers differ between hosts."""

    host: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    slots: tuple[Slot, ...] = ()

    @property
    def driver(self) -> str:
        """Driver version."""
        return self.options.get("driver", "580.159.04")

    @property
    def cuda(self) -> str:
        """Newest CUDA version that the driver runs."""
        return self.options.get("cuda", "13.0")

    @property
    def broken(self) -> bool:
        """True when the driver shall not answer."""
        return self.options.get("broken") == "1"

    @property
    def delay_s(self) -> float:
        """Seconds until the driver answers."""
        return float(self.options.get("delay", 0))


@dataclass(frozen=True)
class Holder:
    """A process with memory on a GPU."""

    gpu: int
    pid: int
    mib: int
    name: str


@dataclass(frozen=True)
class NvidiaGpu:
    """A GPU as nvidia-smi sees it now. Memory in MiB, power in W."""

    index: int
    card: NvidiaCard
    uuid: str
    serial: str
    total: int
    reserved: int
    used: int
    util: int
    link: str
    mig: str
    ecc: str
    mhz: int
    throttle: int
    holders: tuple[Holder, ...]

    @property
    def free(self) -> int:
        """Free memory: the driver's reserve counts neither as used nor as free."""
        return max(0, self.total - self.reserved - self.used)

    @property
    def busy(self) -> bool:
        """True when kernels run on it."""
        return self.util > 0

    @property
    def bus(self) -> str:
        """PCI bus id."""
        return f"00000000:{0x18 + 0x11 * self.index:02X}:00.0"

    @property
    def sm_mhz(self) -> int:
        """Clock of the multiprocessors now."""
        return self.mhz if self.busy else 345

    @property
    def reasons(self) -> int:
        """What holds its clock back, as bits of nvml.h; 1 is that it has nothing to do."""
        return self.throttle if self.busy else 1

    @property
    def temperature(self) -> int:
        """Degrees Celsius."""
        return 37 + self.index % 3 + (24 if self.busy else 0)

    @property
    def draw(self) -> float:
        """Watts."""
        return round(self.card.power_w * (0.82 if self.busy else 0.11) + self.index * 0.7, 2)

    @property
    def state(self) -> str:
        """Performance state."""
        return "P8" if self.card.geforce and not self.busy else "P0"

    @property
    def persistence(self) -> bool:
        """True when the driver stays loaded without a client."""
        return not self.card.geforce


@dataclass(frozen=True)
class AmdGpu:
    """A GPU as AMD's tools see it now. Memory in MiB."""

    index: int
    card: AmdCard
    serial: str
    total: int
    used: int
    holders: tuple[Holder, ...]

    @property
    def bdf(self) -> str:
        """PCI address."""
        return f"0000:{0x0C + 0x17 * self.index:02X}:00.0"

    @property
    def uuid(self) -> str:
        """As amd-smi prints it."""
        return f"{self.serial[:8]}-0000-1000-80{self.serial[8:10]}-{self.serial[10:22]}"


def parse(text: str, host: str = "") -> Box:
    """Read /etc/fake-gpus; lines that are no GPU known here are skipped, as a driver skips foreign cards."""
    options: dict[str, str] = {}
    slots: list[Slot] = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        pairs = dict(word.split("=", 1) for word in words if "=" in word)
        if "=" in words[0]:
            options.update(pairs)
            continue
        count = words[0].rstrip("xX")
        counted = count.isdigit() and len(words) > 1
        slots += [Slot((words[1] if counted else words[0]).upper(), pairs)] * (int(count) if counted else 1)
    return Box(host, options, tuple(slots))


def read(path: str = "/etc/fake-gpus") -> Box:
    """Read the file of this host; without one the driver does not answer."""
    host = os.uname().nodename
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  pathlib would double the start-up time
            return parse(file.read(), host)
    except OSError:
        return Box(host, {"broken": "1"})


def held_mib(box: Box, slot: Slot, total: int) -> int:
    """Return what a server holds on one GPU: never more than nine tenths, vLLM's own default."""
    wanted = int(slot.options.get("held", box.options.get("held", DEFAULT_HELD_MIB)))
    return min(wanted, total * 9 // 10)


def _digest(box: Box, index: int, card: str) -> str:
    return hashlib.sha256(f"{box.host}/{index}/{card}".encode()).hexdigest()


def indexed(box: Box, cards: Mapping[str, object]) -> tuple[tuple[int, Slot], ...]:
    """Return the GPUs of one vendor with their indices."""
    return tuple(enumerate(slot for slot in box.slots if slot.card in cards))


def nvidia(box: Box, holders: Iterable[Holder] = ()) -> tuple[NvidiaGpu, ...]:
    """Return the NVIDIA GPUs, with what the given processes hold on them."""
    everyone = tuple(holders)
    found = []
    for index, slot in indexed(box, NVIDIA):
        card, options = NVIDIA[slot.card], slot.options
        digest = _digest(box, index, slot.card)
        mine = tuple(holder for holder in everyone if holder.gpu == index)
        total = int(options.get("mem", card.memory_mib))
        uuid = f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
        found.append(
            NvidiaGpu(
                index=index,
                card=card,
                uuid=f"GPU-{uuid}",
                serial=str(1_650_000_000_000 + int(digest[32:38], 16)),
                total=total,
                reserved=0 if card.geforce else max(1, round(total * 0.004285)),
                used=int(options.get("used", 0)) + sum(holder.mib for holder in mine),
                util=int(options.get("util", 95 if mine else 0)),
                link=options.get("link", card.link),
                mig=options.get(
                    "mig",
                    "Disabled"
                    if card.compute_capability >= "8.0" and card.power_w >= 300 and slot.card[0] in "HBA"
                    else "N/A",
                ),
                ecc=options.get("ecc", "N/A" if card.geforce else "0"),
                mhz=int(options.get("mhz", card.sm_mhz)),
                throttle=int(options.get("throttle", "0"), 16),
                holders=mine,
            )
        )
    return tuple(found)


def amd(box: Box, holders: Iterable[Holder] = ()) -> tuple[AmdGpu, ...]:
    """Return the AMD GPUs, with what the given processes hold on them."""
    everyone = tuple(holders)
    found = []
    for index, slot in indexed(box, AMD):
        card = AMD[slot.card]
        mine = tuple(holder for holder in everyone if holder.gpu == index)
        total = int(slot.options.get("mem", card.memory_mib))
        used = int(slot.options.get("used", 11)) + sum(holder.mib for holder in mine)
        found.append(AmdGpu(index, card, _digest(box, index, slot.card), total, used, mine))
    return tuple(found)
