"""How far a start and a client are, as read from what hosts print."""

from __future__ import annotations

import pytest

from fleetbench.bench.client import Count, count_of
from fleetbench.model import Workload
from fleetbench.service import watch
from fleetbench.sweep.repeats import speed_so_far

BAR = "  5%|▌         | 5/100 [00:02<00:31,  3.02it/s]\r 12%|█▏        | 12/100 [00:03<00:24,  3.61it/s]"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (BAR, Count(done=12, wanted=100, elapsed_s=3)),
        ("40%|#| 4000/10000 [1:02:03<01:00, 1.1it/s]", Count(done=4000, wanted=10000, elapsed_s=3723)),
        ("100%|#| 10/10 [00:07<00:00]", Count(done=10, wanted=10, elapsed_s=7)),
        ("7/10 [", Count(done=7, wanted=10)),
        ("0%|          | 0/10 [00:00<?, ?it/s]", Count(done=0, wanted=10, elapsed_s=0)),
        ("no bar", None),
        ("", None),
        ("9" * 5000, None),
    ],
)
def test_the_last_bar_says_how_far_a_client_is(text: str, count: Count | None) -> None:
    assert count_of(text) == count


def test_the_speed_so_far_is_not_told_before_the_clients_clock_can_say_it() -> None:
    workload = Workload(output_len=128)
    assert speed_so_far(Count(done=12, wanted=100), workload) is None
    assert speed_so_far(Count(done=12, wanted=100, elapsed_s=1), workload) is None
    assert speed_so_far(Count(done=100, wanted=100, elapsed_s=63), workload) == pytest.approx(
        201.57, abs=0.01
    )


def test_each_line_of_the_journal_has_its_age_by_the_hosts_own_clock() -> None:
    output = "\n".join(
        [
            "#t now",
            "1764531100.500000000",
            "#t journal",
            " 1764531090.250000 lab-01 vllm[1234]: INFO 11-30 19:31:30 Starting to load model x...",
            " 1764531091.500000 lab-01 python3.12[1234]:   indented: with a colon",
            "                                     a continuation",
            " 1764531200.000000 lab-01 vllm[1234]: from the future",
            " not in the form at all",
            " #t end",
            " 1764531099.500000 lab-01 vllm: #t health",
            "",
            "#t end",
        ]
    )
    found = watch.parse(output, "t")
    assert found.journal[:2] == (
        "INFO 11-30 19:31:30 Starting to load model x...",
        "  indented: with a colon",
    )
    assert found.journal[3:] == ("from the future", "not in the form at all", "#t end", "#t health")
    assert found.ages_s == (10.25, 9.0, 9.0, 0.0, 0.0, 0.0, 1.0)
    assert found.health == 0


def test_a_host_that_does_not_tell_its_time_has_lines_without_age() -> None:
    output = "#t now\nyesterday\n#t journal\n 1764531090.250000 h v[1]: x\n#t end"
    assert watch.parse(output, "t").ages_s == (0.0,)
