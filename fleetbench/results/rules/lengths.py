"""Rules over what was sent and answered against what was asked for: lengths, context, eager mode."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleetbench.results.rows import Finding, TrialRow, Verdict
from fleetbench.results.rules.case import Case
from fleetbench.results.rules.table import Thresholds

_EAGER = re.compile(r"(?<!\S)--enforce[-_]eager(?!\S)")


def output(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Tokens of an answer against those asked for."""
    asked, completed, made = case.asked.output_len, case.result.completed, case.result.total_output_tokens
    if not asked or not completed:
        return
    if made is None:
        if case.ours:
            text = "the number of generated tokens is unknown"
            yield Finding(rule="output-length", verdict=Verdict.SUSPECT, text=text)
        return
    mean = made / completed
    share = mean / asked
    numbers = {"mean_output_tokens": mean, "asked_output_tokens": asked}
    than = f"than asked: {mean:.1f} tokens on average, not {asked}"
    exact = case.one_length
    if share < (limits.output_short if exact else limits.foreign_output_short):
        yield Finding(
            rule="output-length",
            verdict=Verdict.INVALID if exact else Verdict.SUSPECT,
            text=f"answers are shorter {than}",
            numbers=numbers,
        )
    elif share > limits.output_long:
        text = f"answers are longer {than}"
        yield Finding(rule="output-length", verdict=Verdict.SUSPECT, text=text, numbers=numbers)


def prompt(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """Tokens of a prompt against those asked for; chat is not judged long, for a template adds its own."""
    asked, completed, sent = case.asked.input_len, case.result.completed, case.result.total_input_tokens
    if not asked or not completed or sent is None:
        return
    mean = sent / completed
    if abs(mean - asked) <= limits.prompt_slack_tokens:
        return
    share = mean / asked
    numbers = {"mean_input_tokens": mean, "asked_input_tokens": asked}
    than = f"than asked: {mean:.1f} tokens on average, not {asked}"
    if share < limits.prompt_short:
        yield Finding(
            rule="prompt-length",
            verdict=Verdict.INVALID if share < limits.prompt_cut else Verdict.SUSPECT,
            text=f"prompts are shorter {than}",
            numbers=numbers,
        )
    elif share > limits.prompt_long and "chat" not in (case.result.backend or ""):
        text = f"prompts are longer {than}"
        yield Finding(rule="prompt-length", verdict=Verdict.SUSPECT, text=text, numbers=numbers)


def context(case: Case, limits: Thresholds) -> Iterator[Finding]:
    """A context length that no request came near to.

    Of our own rows that is said where the trials of a run differ in it, and is a remark.
    """
    length, completed = case.asked.max_model_len, case.result.completed
    sent, made = case.result.total_input_tokens, case.result.total_output_tokens
    prompts = sent / completed if sent is not None and completed else case.asked.input_len
    answers = made / completed if made is not None and completed else case.asked.output_len
    varied = any(trial.config.max_model_len != length for trial in case.siblings)
    if not length or prompts is None or answers is None or (case.ours and not varied):
        return
    used = prompts + answers
    if used >= limits.context_used * length:
        return
    yield Finding(
        rule="context-unused",
        verdict=Verdict.SUSPECT if case.asked.context_varied else Verdict.VALID,
        text=f"requests of {used:,.0f} tokens do not exercise a context of {length:,} tokens",
        numbers={"request_tokens": used, "max_model_len": length},
    )


def eager(case: Case) -> Iterator[Finding]:
    """Eager mode: a remark where it was asked for by us, or where there is no GPU to launch kernels on."""
    effective = case.trial.effective.get("enforce_eager") if case.trial else None
    if not case.ours:
        if case.asked.eager:
            text = "the server ran in eager mode: each kernel is launched by the CPU, GPUs look alike"
            yield Finding(rule="eager-mode", verdict=Verdict.SUSPECT, text=text)
        return
    if effective is not True:
        return
    wanted = case.asked.eager or (case.trial is not None and _eager_by_us(case.trial))
    yield Finding(
        rule="eager-mode",
        verdict=Verdict.VALID if wanted else Verdict.SUSPECT,
        text="the server ran in eager mode" + ("" if wanted else ", which was not asked for"),
    )


def _eager_by_us(trial: TrialRow) -> bool:
    """Whether the unit says so, by the configuration or by the model's own arguments; or there is no GPU."""
    return not trial.gpus.indices or bool(_EAGER.search(trial.unit_text))


def same_prompt(case: Case) -> Iterator[Finding]:
    """One text for all requests, which the prefix cache answers."""
    if case.asked.same_prompt:
        text = "every request sent the same prompt: the prefix cache answers all but the first"
        yield Finding(rule="same-prompt", verdict=Verdict.SUSPECT, text=text)
