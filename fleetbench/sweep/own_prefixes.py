"""How much of its prompts a workload repeats by itself: hits in the prefix cache that prove nothing.

Pure. The rule for random prompts is vLLM's own generator (`RandomDataset`, 0.8 to 0.33): a prompt is a run of
neighbouring token ids from a random place on, so two prompts that begin at the same id are equal as far as
they go. Among n prompts over a vocabulary of V ids n²/2V begin alike. On an H200 this gave 1.66 % hits for a
fresh seed (rule: 1.73 %), 1.27 % (1.15 %) and 2.02 % (2.02 %): noise of the birthday kind, no second run.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable
from typing import Any

from fleetbench.model import Workload

# Where the model's vocabulary is not known: the smallest one in wide use, so the largest allowance.
LEAST_VOCABULARY = 32_000
# The client's own test request sends the first prompt once more, and one may still be in flight.
_EXTRA_PROMPTS = 2
# `custom` prompts go through the model's chat template, which puts a system text of its own before each:
# about 20 tokens of Qwen2.5's, 30 of Llama 3.1's, 70 of gpt-oss's.
_TEMPLATE_TOKENS = 80
_TEMPLATE_OFF = {"--skip-chat-template", "--custom-skip-chat-template"}


def explained(
    workload: Workload,
    *,
    earlier: int,
    preempted: int = 0,
    vocabulary: int | None = None,
    prompts: Iterable[str] | None = None,
    prompt_tokens: float | None = None,
) -> float | None:
    """Return the largest share of prompt tokens (0 to 1) that the workload lets the prefix cache find.

    Args:
        workload: what was sent once.
        earlier: requests that the server had answered before.
        preempted: requests whose tokens were looked up again after a preemption.
        vocabulary: token ids of the model; None: not known.
        prompts: the texts of the prompt file; None: not readable, or there is none.
        prompt_tokens: tokens of one prompt on average; None: not known.

    None means that nobody knows: a data set of unknown making, or a prompt file that could not be read.
    """
    count = max(workload.num_prompts, 1)
    again = (preempted + option(workload, "--num-warmups") + _EXTRA_PROMPTS) / count
    if workload.dataset == "random":
        alike = count * min(1.0, (earlier + count / 2) / (vocabulary or LEAST_VOCABULARY))
        most = alike + 3 * math.sqrt(alike)
        fixed = option(workload, "--random-prefix-len")
        own = fixed / max(fixed + workload.input_len, 1)
        return min(1.0, own + (1 - own) * (most / count) + again)
    if workload.dataset == "prefix_repetition":
        fixed = option(workload, "--prefix-repetition-prefix-len", 256)
        return min(
            1.0, fixed / max(fixed + option(workload, "--prefix-repetition-suffix-len", 256), 1) + again
        )
    if prompts is None:
        return None
    templated = workload.dataset == "custom" and not _TEMPLATE_OFF & set(workload.extra_args)
    template = _TEMPLATE_TOKENS / max(prompt_tokens, 1) if prompt_tokens and templated else 0.0
    texts = tuple(prompts)
    # A file with fewer prompts than are asked for is sent more than once.
    own = 1 - (1 - shared_share(texts)) * min(1.0, len(texts) / count)
    return min(1.0, own + (1 - own) * template + again)


def shared_share(prompts: Iterable[str]) -> float:
    """Return the share of characters that are the beginning of an earlier text too.

    In sorted order the longest common beginning with any text is that with the neighbour, so the sum over
    neighbours is what a cache without limits finds in one pass.
    """
    texts = sorted(prompts)
    total = sum(map(len, texts))
    shared = sum(_common(one, other) for one, other in itertools.pairwise(texts))
    return shared / total if total else 0.0


def prompts_of(text: str) -> tuple[str, ...] | None:
    """Given the content of a prompt file (JSON lines with `prompt`, or ShareGPT), return its prompts.

    None when it has another form.
    """
    try:
        if text.lstrip().startswith("["):
            return tuple(_first_turn(entry) for entry in json.loads(text))
        return tuple(str(json.loads(line)["prompt"]) for line in text.splitlines() if line.strip())
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def option(workload: Workload, name: str, otherwise: int = 0) -> int:
    """Return the whole number that an argument of the bench client has, the last one of several."""
    found = otherwise
    words = (*workload.extra_args, "")
    for place, argument in enumerate(words):
        flag, equals, value = argument.partition("=")
        value = value if equals else words[min(place + 1, len(words) - 1)]
        if flag == name and value.isdecimal():
            found = int(value)
    return found


def _first_turn(entry: Any) -> str:
    turns = entry["conversations"]
    return str(turns[0]["value"]) if turns else ""


def _common(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
