"""Cost of a million tokens, by hand; where power is from; the tariff's file and its mistakes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from choice_entries import entry, steady

from fleetbench.choice.objective import COST, COST_TOTAL, objective_named
from fleetbench.choice.recommend import recommend
from fleetbench.choice.tariff import Cost, cost, with_cost
from fleetbench.errors import UsageError
from fleetbench.inventory import InventoryProblems
from fleetbench.inventory.tariff import (
    EXAMPLE,
    find_tariff,
    read_tariff,
    tariff_of_words,
    tariff_problems,
)
from fleetbench.model import Config, Tariff, Tariffs
from fleetbench.report.entry import Entry

H200 = Tariff(host_price=300_000, gpus=8, years=4, kwh_price=0.20, pue=1.3, host_watts=2000, currency="EUR")


def priced(found: Cost | str) -> Cost:
    assert isinstance(found, Cost)
    return found


def measured(config: Config, *, output: float = 10_000.0, **telemetry: float) -> Entry:
    return entry(config, steady(output), values={"total_token_throughput": 2 * output}, telemetry=telemetry)


def test_an_eight_gpu_host_by_hand() -> None:
    """300,000 over 4 × 365 × 24 h = 8.561644/h; 8 × 600 W + 2 kW = 6.8 kW × 0.20 × 1.3 = 1.768/h;
    10.329644/h over 36 million tokens/h = 0.286934 a million."""
    one = measured(Config(units=8), gpu_power_w_mean=4800.0)
    found = priced(cost(one, H200))
    assert found.capital_per_hour == pytest.approx(8.561644, abs=1e-6)
    assert found.energy_per_hour == pytest.approx(1.768)
    assert found.per_million(10_000) == pytest.approx(0.286934, abs=1e-6)
    (with_it,) = with_cost([one], Tariffs(common=H200))
    assert with_it.value(COST) == pytest.approx(0.286934, abs=1e-6)
    assert with_it.values["energy_per_hour"] == pytest.approx(1.768)
    assert with_it.values["priced_power_w"] == 6800
    assert with_it.values[COST_TOTAL] == pytest.approx(0.143467, abs=1e-6)
    assert [seen.value for seen in with_it.observations[COST.key]] == [
        pytest.approx(10.329644 / (tps * 3600) * 1e6, rel=1e-6) for tps in steady(10_000)
    ]


def test_what_names_no_gpu_is_priced_as_a_host_without_them_or_not_at_all() -> None:
    """A build for processors: 20,000 over 35,040 h, and 500 W × 0.20."""
    one = replace(measured(Config(tp=2)), gpu="")
    assert cost(one, H200) == "no GPU is named, and the tariff is for a host with GPUs (gpus = 8)"
    alone = Tariff(host_price=20_000, gpus=0, years=4, kwh_price=0.20, host_watts=500)
    found = priced(cost(one, alone))
    assert (found.share, found.power_w, found.power_from) == (1.0, 500, "by the tariff")
    assert found.capital_per_hour == pytest.approx(20_000 / 35_040)
    assert found.energy_per_hour == pytest.approx(0.1)


def test_a_part_of_the_host_bears_its_part() -> None:
    """2 of 8 GPUs: a quarter of 8.561644/h; 2 × 600 W + a quarter of 2 kW = 1.7 kW."""
    found = priced(cost(measured(Config(tp=2), gpu_power_w_mean=1200.0), H200))
    assert found.share == 0.25
    assert found.capital_per_hour == pytest.approx(8.561644 / 4, abs=1e-6)
    assert found.energy_per_hour == pytest.approx(1.7 * 0.20 * 1.3)


def test_hours_without_work_are_borne_by_those_with_it() -> None:
    half = Tariff(host_price=300_000, gpus=8, years=4, kwh_price=0.20, utilisation=0.5)
    one = measured(Config(units=8), gpu_power_w_mean=4800.0)
    assert priced(cost(one, half)).capital_per_hour == pytest.approx(2 * 8.561644, abs=1e-6)


def test_the_whole_machines_power_wins_where_the_whole_machine_works() -> None:
    telemetry = {"gpu_power_w_mean": 4800.0, "bmc_power_w_mean": 7000.0}
    whole = priced(cost(measured(Config(units=8), **telemetry), H200))
    assert (whole.power_w, whole.power_from) == (7000, "the whole machine measured")
    part = priced(cost(measured(Config(tp=4), **telemetry), H200))
    assert part.power_w == 4800 + 1000


def test_power_that_nobody_measured_is_an_assumption_and_said() -> None:
    found = priced(cost(measured(Config(tp=4)), H200))
    assert found.power_w == 4 * 700 + 1000
    assert found.power_from.startswith("assumed: 4 × 700 W, the GPUs' limit")
    said = recommend([measured(Config(tp=4))], tariffs=Tariffs(common=H200)).reasons
    assert any("assumed: 4 × 700 W" in reason for reason in said)


def test_what_cannot_be_priced_says_why() -> None:
    unknown = measured(Config(), output=10.0)
    assert "catalogue" in str(cost(entry(Config(), (1.0,), gpu="Foo 9000"), H200))
    assert "not known" in str(cost(entry(Config(), (1.0,), gpus=None, split_known=False), H200))
    no_gpus = Tariff(host_price=1, gpus=0, years=1, kwh_price=0)
    assert "without GPUs" in str(cost(unknown, no_gpus))
    found = recommend([entry(Config(), (1.0,), gpu="Foo")], objective=objective_named("cost"))
    assert "no tariff was given" in found.sentence


def test_a_host_without_gpus_is_priced_whole() -> None:
    one = entry(Config(), (100.0,), gpus=0, gpu="", telemetry={"bmc_power_w_mean": 500.0})
    found = priced(cost(one, Tariff(host_price=8760, gpus=0, years=1, kwh_price=1.0)))
    assert (found.capital_per_hour, found.energy_per_hour) == (1.0, 0.5)


def test_the_cheapest_is_not_the_fastest_and_is_told_in_the_currency() -> None:
    entries = [
        entry(Config(units=8), steady(10_000), trial=1, telemetry={"gpu_power_w_mean": 4800.0}),
        entry(Config(tp=2), steady(4_000), trial=2, telemetry={"gpu_power_w_mean": 1200.0}),
    ]
    found = recommend(entries, objective=objective_named("cost"), tariffs=Tariffs(common=H200))
    assert found.best is not None
    assert found.best.trial == 2
    per_hour = 8.561644 / 4 + 1.7 * 0.26
    assert found.best.value == pytest.approx(per_hour / 14.4, abs=1e-6)
    assert found.sentence.startswith(
        "tp=2 dp=1: 0.179 EUR per million output tokens, "
        "cheaper than tp=1 dp=1 units=8 (0.287) by 37.4–37.6 %"
    )
    assert "By tokens/s: tp=1 dp=1 units=8 (10,000 tok/s)." in found.sensitivity
    fastest = recommend(entries, tariffs=Tariffs(common=H200))
    assert "By cost: tp=2 dp=1 (0.179 EUR per million output tokens)." in fastest.sensitivity
    assert (
        "An hour costs 8.56 EUR for the host (300,000 EUR over 4 years) and 1.77 EUR for power (6,800 W, "
        "GPUs measured at 4,800 W, and 2,000 W for the rest of the host by the tariff; a kWh at 0.2 EUR, "
        "PUE 1.3)."
    ) in fastest.reasons


TEXT = """\
[tariff]
currency = "EUR"
host_price = 300_000
gpus = 8
years = 4
kwh_price = 0.20
pue = 1.3

[gpus."RTX 4090"]
host_price = 30_000

[gpus.RTX]
years = 3

[hosts."h200-[01-02]"]
kwh_price = 0.10
"""


def test_a_file_with_what_differs(tmp_path: Path) -> None:
    (tmp_path / "tariff.toml").write_text(TEXT)
    found = read_tariff(tmp_path / "tariff.toml")
    assert found.of("NVIDIA H200", "h200-03") == found.common
    assert found.of("NVIDIA H200", "h200-02").kwh_price == 0.10
    card = found.of("NVIDIA GeForce RTX 4090", "x")
    assert (card.host_price, card.years) == (30_000, 4)  # the longest name counts, alone
    assert find_tariff("", tmp_path) == found
    assert find_tariff(str(tmp_path / "tariff.toml"), tmp_path / "none") == found
    assert find_tariff("", tmp_path / "none") is None


def test_a_file_that_is_commented_out_is_none_in_the_inventory_and_a_mistake_where_it_is_named(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tariff.toml"
    file.write_text(re.sub(r"(?m)^(?=.)", "# ", TEXT))
    assert find_tariff("", tmp_path) is None
    assert tariff_problems(tmp_path) == ()
    with pytest.raises(InventoryProblems):
        find_tariff(str(file), tmp_path)


def test_the_sample_says_what_could_stand_there(tmp_path: Path) -> None:
    sample = Path(__file__).parents[2] / "inventory" / "tariff.toml"
    assert find_tariff("", sample.parent) is None
    file = tmp_path / "tariff.toml"
    file.write_text(re.sub(r"(?m)^# (?=\[|\w+ += )", "", sample.read_text()))
    found = read_tariff(file)
    assert (
        found.of("NVIDIA H200", "h200-01").host_price > found.of("Tesla V100-PCIE-16GB", "v100-x8").host_price
    )
    assert found.of("NVIDIA H100 80GB HBM3", "h100-07").kwh_price != found.common.kwh_price


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tariff]\n", "expected the keys host_price, gpus, years, kwh_price"),
        (TEXT.replace("host_price = 300", "host_prize = 300"), "did you mean host_price or kwh_price?"),
        (TEXT.replace("pue = 1.3", "pue = 0.9"), "expected a number from 1 to 5"),
        (TEXT.replace("kwh_price = 0.20", 'kwh_price = "20 ct"'), "expected a number from 0"),
        (TEXT.replace("years = 4", "years = nan"), "expected a number of years from 0.1 to 50"),
        (TEXT.replace('currency = "EUR"', 'currency = "€ \\u001b"'), "a currency such as EUR"),
        (
            TEXT.replace("[gpus.RTX]", '[gpus.RTX]\ncurrency = "USD"'),
            "expected currency in [tariff] only: prices of one file are compared with each other",
        ),
        (TEXT + 'currency = "USD"\n', "expected currency in [tariff] only"),
        (TEXT.replace("[gpus.RTX]", "[gpu.RTX]"), "did you mean gpus?"),
        (TEXT.replace("h200-[01-02]", "h200-[02-01]"), "h200-[02-01]"),
        (TEXT + '[hosts."h200-02"]\n', "already in another table"),
        ("tariff = 3\n", "expected a table"),
        (
            "gpus = 3\n" + TEXT.replace('[gpus."RTX 4090"]', "[x]").replace("[gpus.RTX]", "[y]"),
            "expected tables",
        ),
        ("[tariff\n", "not valid TOML"),
    ],
)
def test_a_mistake_names_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "tariff.toml"
    file.write_text(text)
    with pytest.raises(InventoryProblems) as caught:
        read_tariff(file)
    assert said in str(caught.value)
    assert "tariff.toml:" in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert tariff_problems(tmp_path) == caught.value.problems


def test_words_are_a_tariff_too() -> None:
    found = tariff_of_words(EXAMPLE).common
    assert found == Tariff(host_price=300_000, gpus=8, years=4, kwh_price=0.20, pue=1.3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("host_price=1", "expected the keys gpus, years, kwh_price"),
        (EXAMPLE + ",peu=2", "did you mean pue?"),
        (EXAMPLE.replace("gpus=8", "gpus=many"), "expected a whole number"),
        (EXAMPLE.replace("years=4", "years=1e999"), "expected a number of years"),
        (EXAMPLE.replace("0.20", "nan"), "expected a number"),
        ("=\x1b", "no such key here"),
        ("years=4," * 1000, "expected the keys host_price, gpus, kwh_price"),
        ("nofile.toml", "no tariff file"),
    ],
)
def test_words_that_mean_nothing_are_refused(tmp_path: Path, words: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_tariff(words, tmp_path)
    assert said in str(caught.value)
    assert EXAMPLE in str(caught.value)
    assert "\x1b" not in str(caught.value)
