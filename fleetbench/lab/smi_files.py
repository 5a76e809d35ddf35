"""Put the GPU stand-ins on a host: nvidia-smi, or rocm-smi and amd-smi, and the file that describes its GPUs.

A host without GPUs gets none of the commands, so that "command not found" is real there.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from fleetbench.lab.commands import write

PROGRAM = Path(__file__).with_name("smi")
START = """\
#!/usr/libexec/platform-python -I
import sys

sys.path.insert(0, "/usr/lib/lab")
from smi.__main__ import main

main()
"""


def gpus_text(spec: str) -> str:
    """Given for example `driver=570.172.08 cuda=12.8|8x H100`, return the text of /etc/fake-gpus."""
    return "\n".join(line.strip() for line in spec.split("|")) + "\n" if spec.strip() else ""


def commands(spec: str) -> tuple[str, ...]:
    """Return the commands that a host with these GPUs has."""
    if not spec.strip():
        return ()
    return ("rocm-smi", "amd-smi") if re.search(r"\bMI\d", spec, re.IGNORECASE) else ("nvidia-smi",)


def install(root: Path, spec: str) -> None:
    """Write the stand-ins below `root`, a host's layer or mounted file system; without GPUs remove them."""
    bin_directory = root / "usr/bin"
    for name in ("nvidia-smi", "rocm-smi", "amd-smi"):
        (bin_directory / name).unlink(missing_ok=True)
    if not spec.strip():
        (root / "etc/fake-gpus").unlink(missing_ok=True)
        return
    write(root / "etc/fake-gpus", gpus_text(spec))
    library = root / "usr/lib/lab/smi"
    library.mkdir(parents=True, exist_ok=True)
    for module in PROGRAM.glob("*.py"):
        shutil.copyfile(module, library / module.name)
    write(root / "usr/lib/lab/fake-smi", START, 0o755)
    bin_directory.mkdir(parents=True, exist_ok=True)
    for name in commands(spec):
        (bin_directory / name).symlink_to("../lib/lab/fake-smi")
