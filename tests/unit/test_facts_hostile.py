"""Whatever a host answers, the parser gives facts back: never an exception, never a guess."""

from __future__ import annotations

import random
import time

from facts_answers import BARE, NVIDIA, SERVING, TOKEN, Ended, facts_of, fixture, framed
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetbench.facts.document import from_json, to_json
from fleetbench.facts.probe import parse
from fleetbench.facts.table import overview

AMD = {
    "amd_static": fixture("amd_static.json"),
    "amd_metric": fixture("amd_metric.json"),
    "amd_process": fixture("amd_process.json"),
    "amd_table": "",
    "rocm_json": fixture("rocm.json"),
    "rocm_table": fixture("rocm_table.txt"),
    "rocm_topo": "",
}
WHOLE = {
    **BARE,
    **SERVING,
    **NVIDIA,
    **AMD,
    "files": "file\tregular file\t644\ta:b\t/x\ntext\t1\t/x\n",
    "text-1": "x\n",
}
NAMES = sorted(WHOLE)
TEXT = framed(dict(WHOLE))
NASTY = (
    "\x00\x1b[2J\x1b]0;x\x07",
    "\t\t\t\t\t\t\t\t",
    "9" * 5000,
    "-1",
    "\ud800",
    "0x",
    "=",
    "::",
    '("x",pid=',
    "|",
    "| 1 |",
    "٣",
    "²",
    "1e999",
    "NaN",
    "[" * 3000,
    '{"gpu_data":' * 500,
    "\u2028",
    "\r",
    "/",
    "GPU0",
    "GPU0 X",
    "card0",
    '{"card0": null, "card1": {"Card Series": 3}}',
    '[{"gpu": {}, "process_list": [1, null, {}]}]',
    '[{"gpu": 0, "process_list": [{"process_info": []}]}, []]',
    "Driver Version: ",
    "LISTEN",
    "08:99",
    "ROCm System Management Interface\nDevice VRAM% GPU%\n0 x",
    "Id=vllm-8001.service\nMainPID=" + "9" * 30,
    "file\tdirectory\t99\t\t/x",
    "free\t1\t1\t1\t/",
    "asked\t/\t/",
    "NVIDIA-SMI",
    "'\"",
    "ID='",
    "a:b:c:d:e:f:g",
)


def survives(text: str) -> None:
    facts = parse(text, host="h", token=TOKEN)
    (row,) = overview(facts)
    assert all(cell.isprintable() for cell in row.cells if cell)
    assert from_json(to_json(facts)) == facts


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=300) | st.sampled_from(NASTY)))
def test_any_text_in_any_section_is_survived(replaced: dict[str, str]) -> None:
    survives(framed({**WHOLE, **replaced}))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)), st.sampled_from(NASTY))
def test_text_put_anywhere_instead_of_anything_is_survived(start: int, end: int, nasty: str) -> None:
    survives(TEXT[: min(start, end)] + nasty + TEXT[max(start, end) :])


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=2000))
def test_binary_output_is_survived(noise: bytes) -> None:
    survives(noise.decode("utf-8", "replace") + TEXT[:500])


def test_every_nasty_text_in_every_section_is_survived() -> None:
    for nasty in NASTY:
        survives(framed(dict.fromkeys(NAMES, nasty)))
        survives(framed({name: f"{WHOLE[name]}{nasty}\n" for name in NAMES}))
        survives(framed({name: f"{nasty}\n{WHOLE[name]}" for name in NAMES}))
    for number, name in enumerate(NAMES):
        for nasty in NASTY[number % 4 :: 4]:
            survives(framed({**WHOLE, name: nasty}))


def test_fields_mixed_up_within_lines_are_survived() -> None:
    shuffle = random.Random(7)  # noqa: S311  a reproducible order, no secret
    for _ in range(60):
        mixed = {}
        for name, text in WHOLE.items():
            lines = []
            for line in text.split("\n"):
                words = line.split(" ")
                shuffle.shuffle(words)
                lines.append(" ".join(words[: shuffle.randint(0, len(words))]))
            mixed[name] = "\n".join(lines)
        survives(framed(mixed))


def test_a_huge_answer_is_read_in_linear_time() -> None:
    huge = {name: (text or "x y z\n") * (1 + 400_000 // (len(text) + 8)) for name, text in WHOLE.items()}
    lines = {
        "units": "A" * 400_000,
        "nvidia_table": "|" + " 1 " * 100_000,
        "amd_table": "| 0 " + " |" * 100_000,
    }
    started = time.monotonic()
    survives(framed({**huge}))
    survives(framed({**WHOLE, **lines}))
    assert time.monotonic() - started < 30, "30 MB of nonsense; quadratic reading takes minutes"


def test_a_unit_name_that_is_none_is_left_out() -> None:
    facts = facts_of(
        BARE, {"units": Ended("Id=vllm-../../x.service\nLoadState=loaded\n\nId=evil\nLoadState=loaded\n")}
    )
    assert facts.units == {}
