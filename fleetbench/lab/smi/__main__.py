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
    tool = os.path.basename(sys.argv[0])  # noqa: PTH119  see gpus.read
    arguments = sys.argv[1:]
    pause_s = nvidia.parse(arguments).loop_s if tool == "nvidia-smi" else 0.0
    try:
        answer = respond(tool, arguments)
        _show(answer)
        while pause_s and answer.status == 0:
            time.sleep(pause_s)
            answer = respond(tool, again(arguments))
            _show(answer)
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(141)
    sys.exit(answer.status)


def again(arguments: Sequence[str]) -> Sequence[str]:
    """Return the command line for the next round of `-l`: a query does not repeat its header."""
    request = nvidia.parse(arguments)
    queried = request.gpu_fields is not None or request.app_fields is not None
    return [*arguments, f"--format={request.form},noheader"] if queried else arguments


def _show(answer: Answer) -> None:
    sys.stdout.write(answer.text)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
