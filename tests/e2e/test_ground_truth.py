"""The real client of vLLM in front of a server whose truth is known: what is reported against what is true.

A sweep measures a build whose `vllm serve` streams by a schedule; the client is that of the host's own build,
as when a sweep compares versions. The server writes down when each token left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from known_host import RECORD, install_known, model_toml, write_tokenizer
from known_truth import Truth, lines_of, truth_of
from site_under_test import Site

from fleetbench.results.rows import MeasurementKind, MeasurementRow
from fleetbench.results.store import open_store
from fleetbench.results.values import BenchResult

TTFT_S, TOKEN_S, INPUT, OUTPUT = 0.15, 0.02, 64, 32
# Streams and prompts. With few streams only TTFT may be wrong, where the machine is busy with other things.
SURE = {1: 12, 8: 80}
WIDER = {32: 320, 128: 1280, 400: 4000}
ALWAYS = ("output_throughput", "mean_tpot_ms", "median_tpot_ms", "mean_e2el_ms")
SWEEP = """
[sweeps.truth]
parallel = [{ tp = 1 }]
builds = ["known"]
repeats = 1
""" + "".join(
    f"""
[[sweeps.truth.workload]]
num_prompts = {prompts}
max_concurrency = {streams}
input_len = {INPUT}
output_len = {OUTPUT}
"""
    for streams, prompts in (SURE | WIDER).items()
)


@dataclass(frozen=True)
class Measured:
    """One repeat as it was stored, and what is true of it."""

    row: MeasurementRow
    result: BenchResult
    truth: Truth

    def off(self) -> dict[str, float]:
        """By how much each number is off, as multiple of what is allowed: 1 %, or 2 ms or 2 %."""
        result, truth = self.result, self.truth
        assert result.output_throughput is not None
        found = {"output_throughput": abs(result.output_throughput / truth.output_throughput - 1) / 0.01}
        for name in ("mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "mean_e2el_ms"):
            true = getattr(truth, name)
            found[name] = abs(result.latencies[name] - true) / max(2.0, 0.02 * true)
        return found


@pytest.fixture(scope="module")
def measured(site: Site) -> Mapping[int, Measured]:
    """One sweep over all concurrencies; by concurrency."""
    site.invoke("provision", "--hosts", "lab-01", timeout_s=1500)
    install_known(site.settings, "lab-01")
    write_tokenizer(site.settings.cache / "models" / "known")
    inventory = site.place / "inventory"
    (inventory / "hosts.toml").write_text('[builds.known]\nversion = "0.32.0"\n')
    known = {"ttft_s": TTFT_S, "token_s": TOKEN_S}
    (inventory / "models.toml").write_text(model_toml("known", "/srv/models/known", known))
    (inventory / "sweeps.toml").write_text(SWEEP)
    site.invoke("sweep", "--model", "known", "--sweep", "truth", "--hosts", "lab-01")
    lines = lines_of(site.on("lab-01", "cat", RECORD))
    with open_store(runs_directory=site.place / "runs", create=False) as store:
        rows = sorted(store.measurements(store.run("latest").id), key=lambda row: row.unit_name)
    found: dict[int, Measured] = {}
    began = 0
    for index, streams in enumerate(SURE | WIDER):
        for kind in (MeasurementKind.WARMUP, MeasurementKind.MEASURE):
            (row,) = (row for row in rows if row.workload_index == index and row.kind is kind)
            assert row.result is not None
            assert row.result.num_prompts is not None
            mine = lines[began : began + row.result.num_prompts]
            began += len(mine)
            if kind is MeasurementKind.MEASURE:
                found[streams] = Measured(row, row.result, truth_of(mine))
    assert began == len(lines), "each request that was sent is one of a measurement"
    print(as_table(found))  # noqa: T201  with pytest -s: the rows of docs/ground_truth.md
    return found


def as_table(measured: Mapping[int, Measured]) -> str:
    """Return what was reported beside what is true, as the rows of a Markdown table."""
    lines = []
    for streams, one in measured.items():
        result, truth = one.result, one.truth
        pairs = [(result.output_throughput or 0, truth.output_throughput)]
        pairs += [
            (result.latencies[name], getattr(truth, name))
            for name in ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms")
        ]
        cells = [
            f"{said:,.{0 if said > 1000 else 1}f} / {true:,.{0 if true > 1000 else 1}f}"
            for said, true in pairs
        ]
        cells[0] += f" ({100 * (pairs[0][0] / pairs[0][1] - 1):+.1f} %)"
        said = [f.text.split(",")[0] for f in one.row.findings if f.rule == "client-bound"]
        lines.append(f"| {streams} | {' | '.join(cells)} | {'; '.join(said)} |")
    return "\n" + "\n".join(lines)


@pytest.mark.parametrize("streams", SURE)
def test_throughput_and_times_of_few_streams_are_true(measured: Mapping[int, Measured], streams: int) -> None:
    off = measured[streams].off()
    assert max(off[name] for name in ALWAYS) <= 1, off


@pytest.mark.parametrize("streams", SURE | WIDER)
def test_what_is_reported_is_true_or_the_row_says_that_its_client_binds(
    measured: Mapping[int, Measured], streams: int
) -> None:
    one = measured[streams]
    wrong = {name: round(value, 2) for name, value in one.off().items() if value > 1}
    said = {finding.rule for finding in one.row.findings}
    assert not wrong or "client-bound" in said, (wrong, said)


@pytest.mark.parametrize("streams", SURE | WIDER)
def test_counts_are_exact(measured: Mapping[int, Measured], streams: int) -> None:
    one = measured[streams]
    prompts = (SURE | WIDER)[streams]
    assert (one.result.completed, one.truth.completed, one.truth.failed) == (prompts, prompts, 0)
    assert one.result.total_output_tokens == one.truth.output_tokens == prompts * OUTPUT
    assert one.result.total_input_tokens == one.truth.prompt_tokens == prompts * INPUT


def test_the_server_kept_to_its_schedule(measured: Mapping[int, Measured]) -> None:
    for streams in SURE:
        truth = measured[streams].truth
        assert truth.median_ttft_ms >= 1000 * TTFT_S
        assert truth.median_tpot_ms == pytest.approx(1000 * TOKEN_S, rel=0.02)
