"""Entry point on the host: the name it was called by decides which tool it is."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from . import amd, nvidia, rocm
from .answer import Answer
from .gpus import nvidia as nvidia_gpus
from .gpus import read
from .occupancy import read_holders

TOOLS = {"nvidia-smi": nvidia.answer, "rocm-smi": rocm.answer, "amd-smi": amd.answer}


def respond(tool: str, arguments: Sequence[str]) -> Answer:
    """Return what `tool` prints on this host now."""
    box = read()
    time.sleep(box.delay_s)
    holders = read_holders(box, [gpu.uuid for gpu in nvidia_gpus(box)])
    return TOOLS.get(tool, nvidia.answer)(arguments, box, holders)


def main() -> None:
    """Print the answer and exit with its status; a reader that went away is no error of ours."""
    answer = respond(os.path.basename(sys.argv[0]), sys.argv[1:])  # noqa: PTH119  see gpus.read
    try:
        sys.stdout.write(answer.text)
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(141)
    sys.exit(answer.status)


if __name__ == "__main__":
    main()
