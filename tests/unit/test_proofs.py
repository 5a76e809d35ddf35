"""The server's counters as a witness: prompts out of the prefix cache, and requests of somebody else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from shared_material import read, shared

from fleetbench.model import Workload
from fleetbench.results.parse import parse
from fleetbench.results.rows import Verdict
from fleetbench.results.values import BenchResult
from fleetbench.service import metrics
from fleetbench.service.metrics import Reading
from fleetbench.sweep.own_prefixes import explained, prompts_of, shared_share
from fleetbench.sweep.proof import findings

WORKLOAD = Workload(dataset="random", input_len=128, output_len=128, num_prompts=2000, max_concurrency=1000)
FRESH = Reading(prompt_tokens=1000, prefix_queries=1000, prefix_hits=0, requests=10, preemptions=0)
DONE = BenchResult(completed=2000, failed=0)
QWEN_IDS = 151_669


def after(hits: int, *, queries: int = 256_000, requests: int = 2000) -> Reading:
    return replace(
        FRESH, prefix_queries=1000 + queries, prefix_hits=hits, requests=10 + requests, prompt_tokens=257_000
    )


def captured(name: str) -> Reading:
    return metrics.read(read(shared("captures", "gpu", *name.split("/"))))


def test_a_fresh_seed_on_a_real_gpu_is_explained_by_chance() -> None:
    third, fourth = (captured(f"h200/a-7b-{which}.metrics.txt.xz") for which in ("3runs", "4runs"))
    counted = metrics.since(third, fourth)

    assert (counted.prefix_hits, counted.prefix_queries, counted.requests) == (4256, 256_009, 2000)
    assert findings(third, fourth, DONE, WORKLOAD, vocabulary=QWEN_IDS) == ()


def test_the_same_seed_three_times_on_a_real_gpu_is_found_out() -> None:
    third = captured("h200/a-7b-3runs.metrics.txt.xz")
    twice = Workload(dataset="random", input_len=128, num_prompts=4000)
    first = replace(third, prefix_queries=256_020, prefix_hits=1792, requests=2003)
    (found,) = findings(first, third, BenchResult(completed=4000, failed=0), twice, vocabulary=QWEN_IDS)

    assert found.verdict is Verdict.SUSPECT
    assert found.text.startswith("87.7% of prompt tokens came from the prefix cache")


@pytest.mark.parametrize(("hits", "suspect"), [(0, False), (5000, False), (25_000, True), (256_000, True)])
def test_random_prompts_may_meet_by_chance_but_not_often(hits: int, *, suspect: bool) -> None:
    found = findings(FRESH, after(hits), DONE, WORKLOAD, vocabulary=QWEN_IDS)

    assert [one.verdict for one in found] == ([Verdict.SUSPECT] if suspect else [])


def test_an_asked_for_prefix_is_no_surprise() -> None:
    shared_half = replace(WORKLOAD, extra_args=("--random-prefix-len", "128"))
    half = after(256_000, queries=512_000)

    assert findings(FRESH, half, DONE, shared_half, vocabulary=QWEN_IDS) == ()
    assert findings(FRESH, half, DONE, WORKLOAD, vocabulary=QWEN_IDS)[0].verdict is Verdict.SUSPECT


def test_a_prompt_file_explains_what_its_texts_have_in_common() -> None:
    words = ("red", "green", "blue", "black", "white")
    prompts = [f"You are a careful assistant. {word * 20}" for word in words]

    assert shared_share(prompts) == pytest.approx(4 * 29 / sum(map(len, prompts)), abs=0.01)
    assert shared_share(["abc", "abc", "abc"]) == pytest.approx(2 / 3)
    assert shared_share([]) == 0


def test_a_second_pass_over_the_same_file_is_found_out() -> None:
    prompts = [f"{number} is the number of this long prompt" * 20 for number in range(100, 200)]
    workload = Workload(dataset="custom", num_prompts=100, prompts="p.jsonl")
    result = BenchResult(completed=100, failed=0)
    cached = after(90_000, queries=100_000, requests=100)

    (found,) = findings(FRESH, cached, result, workload, prompts=prompts)
    assert found.verdict is Verdict.SUSPECT
    assert "90.0%" in found.text
    assert (
        findings(FRESH, after(1000, queries=100_000, requests=100), result, workload, prompts=prompts) == ()
    )


def test_a_file_that_is_sent_more_than_once_in_one_repeat_explains_that() -> None:
    prompts = [f"{number} is the number of this long prompt" * 20 for number in range(100, 150)]
    twice = Workload(
        dataset="custom", num_prompts=100, prompts="p.jsonl", extra_args=("--skip-chat-template",)
    )

    assert explained(twice, earlier=0, prompts=prompts) == pytest.approx(0.5, abs=0.05)


def test_what_a_data_set_of_unknown_making_explains_is_said_to_be_unknown() -> None:
    sonnet = replace(WORKLOAD, dataset="sonnet")
    (found,) = findings(FRESH, after(128_000), DONE, sonnet)

    assert found.verdict is Verdict.VALID
    assert found.text == (
        "50.0% of prompt tokens came from the prefix cache; how much of it its prompts explain is unknown"
    )


@pytest.mark.parametrize(
    ("before", "problem", "said"),
    [
        (None, "/metrics answered 404", "unknown: /metrics answered 404"),
        (replace(FRESH, prefix_queries=None, prefix_hits=None), "", "no such counters"),
        (replace(FRESH, prefix_hits=500_000), "", "began anew"),
    ],
)
def test_without_counters_the_row_says_so_and_stays_what_it_is(
    before: Reading | None, problem: str, said: str
) -> None:
    (found,) = findings(before, after(0), DONE, WORKLOAD, problem=problem)

    assert found.verdict is Verdict.VALID
    assert said in found.text


def test_a_prefix_cache_that_is_off_needs_no_remark() -> None:
    off = Reading(requests=10, cache={"enable_prefix_caching": "False"})

    assert findings(off, replace(off, requests=2010), DONE, WORKLOAD) == ()


@pytest.mark.parametrize(
    ("requests", "said"),
    [(2000, ""), (2001, ""), (2040, "somebody else used it"), (1990, "the client counts 2,000")],
)
def test_requests_that_the_client_does_not_know_of_are_suspect(requests: int, said: str) -> None:
    found = findings(FRESH, after(0, requests=requests), DONE, WORKLOAD)

    assert [one.verdict for one in found] == ([Verdict.SUSPECT] if said else [])
    assert not said or said in found[0].text


@pytest.mark.parametrize(
    ("servers", "more", "alone"), [(1, 1, True), (1, 2, False), (4, 6, True), (4, 7, False)]
)
def test_each_of_several_servers_may_have_been_asked_by_us(servers: int, more: int, alone: bool) -> None:
    before = Reading(requests=10, cache={"enable_prefix_caching": "False"})
    after = replace(before, requests=2010 + more)

    assert (findings(before, after, DONE, WORKLOAD, servers=servers) == ()) is alone


def test_failed_requests_are_the_client_s_own_verdict() -> None:
    assert findings(FRESH, after(0, requests=1800), BenchResult(completed=1800, failed=200), WORKLOAD) == ()


def test_tokens_of_client_and_server_agree_on_a_real_gpu_and_half_of_them_do_not() -> None:
    third, fourth = (captured(f"h200/a-7b-{which}.metrics.txt.xz") for which in ("3runs", "4runs"))
    (block,) = parse(read(shared("captures", "gpu", "h200", "a-7b-seed1.bench.json")))
    assert findings(third, fourth, block.result, WORKLOAD, vocabulary=QWEN_IDS) == ()

    half = replace(third, generation_tokens=(fourth.generation_tokens or 0) - 128_000)
    (found,) = findings(half, fourth, block.result, WORKLOAD, vocabulary=QWEN_IDS)
    assert (found.rule, found.numbers) == ("server-tokens", {"server": 128_000, "client": 256_000})


def test_a_preempted_request_may_read_its_prompt_again() -> None:
    done = replace(DONE, total_input_tokens=256_000)
    most = after(0)
    twice = replace(most, prompt_tokens=(most.prompt_tokens or 0) * 2)
    assert [one.rule for one in findings(FRESH, twice, done, WORKLOAD)] == ["server-tokens"]
    assert findings(FRESH, replace(twice, preemptions=900), done, WORKLOAD) == ()


def test_an_unknown_vocabulary_is_taken_for_a_small_one() -> None:
    known = explained(WORKLOAD, earlier=0, vocabulary=QWEN_IDS)
    unknown = explained(WORKLOAD, earlier=0)

    assert known is not None
    assert unknown is not None
    assert known < 0.015 < unknown < 0.06


@pytest.mark.parametrize(
    ("text", "prompts"),
    [
        ('{"prompt": "a"}\n\n{"prompt": "b", "output_tokens": 3}\n', ("a", "b")),
        (json.dumps([{"conversations": [{"value": "hi"}, {"value": "ho"}]}]), ("hi",)),
        ("not json", None),
        ('{"question": "a"}', None),
        ("[" * 100_000, None),
    ],
)
def test_prompt_files_are_read_or_not_known(text: str, prompts: tuple[str, ...] | None) -> None:
    assert prompts_of(text) == prompts


@pytest.mark.parametrize(
    ("name", "hits", "queries"),
    [("v0.32.0_dp2.prom", 128, 12_825), ("v0.11.0_after_load.prom", 2048, 23_469)],
)
def test_counters_of_all_engines_are_added_up_and_their_twins_are_not(
    name: str, hits: int, queries: int
) -> None:
    reading = metrics.read(read(shared("captures", "cpu", "metrics", name)))

    assert (reading.prefix_hits, reading.prefix_queries, reading.prompt_tokens) == (hits, queries, queries)


def test_older_names_count_where_there_is_no_newer_one() -> None:
    older = 'vllm:gpu_prefix_cache_hits_total{engine="0"} 5.0\nvllm:gpu_prefix_cache_queries_total 10\n'

    assert (metrics.read(older).prefix_hits, metrics.read(older).prefix_queries) == (5, 10)
    assert metrics.read(older + "vllm:prefix_cache_hits_total 7\n").prefix_hits == 7


@pytest.mark.parametrize(
    "text",
    [
        "vllm:request_success_total NaN",
        "vllm:request_success_total 1e400",
        "vllm:request_success_total -1",
        'vllm:request_success_total{finished_reason="abort"} 3',
        'vllm:request_success_total{a="' + "x" * 100_000 + '"} 3',
        "vllm:request_success_total{" + 'a="b",' * 10_000,
        "vllm:request_success_created 3",
        "\x00" * 1000,
    ],
)
def test_hostile_or_useless_samples_are_no_numbers(text: str) -> None:
    assert metrics.read(text) == Reading()


def test_several_servers_are_one_and_what_one_lacks_is_unknown() -> None:
    whole = metrics.total([FRESH, replace(FRESH, prefix_hits=5, requests=None)])

    assert (whole.prefix_hits, whole.prompt_tokens, whole.requests) == (5, 2000, None)
    assert metrics.total([]) == Reading()
