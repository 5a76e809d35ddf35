"""Watching a measurement from the server's side: its counters, what is sampled, and who is on its GPUs.

The reading before is a file before the client starts, so that a controller that was killed goes on with it.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from fleetbench.bench.left import keep_files
from fleetbench.bench.measure import Server
from fleetbench.bench.prepare import Preload
from fleetbench.bench.witness import Seen
from fleetbench.errors import Unreadable
from fleetbench.facts.values import Gpu, Missing
from fleetbench.model import GpuSet, Workload
from fleetbench.results import raw_files
from fleetbench.results.rows import Json, MeasurementRow, TrialRow
from fleetbench.results.values import BenchResult
from fleetbench.sweep import sampling
from fleetbench.sweep.ground import Bench, Ground
from fleetbench.sweep.holders import intruders
from fleetbench.sweep.nearness import Nearness
from fleetbench.sweep.own_prefixes import prompts_of
from fleetbench.sweep.port import stranger
from fleetbench.sweep.sampling import Sampled
from fleetbench.sweep.scrape import Endpoint, Scrape, scrape
from fleetbench.sweep.witnessed import OBSERVED, Observed, found, head, to_json
from fleetbench.telemetry import samples
from fleetbench.telemetry.summary import AFTER, BEFORE, FILES, NOT_READ, summary
from fleetbench.transport.base import bash
from fleetbench.transport.durable import DurableSession

# A prompt file is read into memory and sorted.
_LARGEST_PROMPTS = 64 * 1024 * 1024
# Of a model with several parts the largest vocabulary is that of its text.
_VOCABULARY = r"""
prefix=$1 repo=$2
case $repo in
  /*) file=$repo/config.json ;;
  *) snapshots=$prefix/models/huggingface/hub/models--${repo//\//--}/snapshots
     file=$(ls -td "$snapshots"/*/config.json 2>/dev/null | head -n 1) ;;
esac
[ -f "$file" ] && head -c 4000000 "$file" | grep -oE '"vocab_size": *[0-9]{1,9}' |
  grep -oE '[0-9]+$' | sort -n | tail -n 1
exit 0
"""


@dataclass(slots=True)
class CounterWitness:
    """The witness of one trial.

    `invocation` is that of its server: a reading of another one is none. `units` serve; `bench` is how the
    trial is measured.
    """

    ground: Ground
    trial: TrialRow
    server: Server
    invocation: str
    units: Sequence[str]
    bench: Bench
    _sampled: list[Sampled] = field(default_factory=list)
    _vocabulary: list[int | None] = field(default_factory=list)
    _nearness: list[Nearness] = field(default_factory=list)

    def outlived(self, row: MeasurementRow) -> bool:
        """True when the counters of this attempt are those of an earlier server."""
        text = self._text(row, BEFORE)
        return text.startswith(self._attempt(row)) and head(text) != self._head(row)

    def before(self, row: MeasurementRow) -> None:
        """Write the counters before the client starts, and begin to sample."""
        self._keep(row, BEFORE, self._head(row), scrape(self.ground.session, self._endpoints()))
        for name in (samples.METRICS, samples.HOST, samples.CLIENT, samples.GPUS, samples.ABOUT):
            self._path(row, name).unlink(missing_ok=True)  # of an earlier attempt
        problem = sampling.begin(self._sampling(), row)
        if problem:
            self.ground.said(f"trial {self.trial.number}: not sampled: {problem}")

    def after(self, row: MeasurementRow, result: BenchResult | None) -> Seen:
        """Write the counters after it, and what was sampled, and judge; whatever cannot be read is said."""
        self._keep(row, AFTER, self._head(row), scrape(self.ground.session, self._endpoints()))
        workload = self.trial.workloads[row.workload_index]
        observed = Observed(
            servers=len(self._endpoints()),
            vocabulary=self._vocabulary_size(),
            strangers=self._strangers(),
            listener=stranger(self.ground.session, self.server.unit, self.server.port, self.server.address),
            port=self.server.port,
            prompts_sha256=digest_of(workload),
        )
        keep_files(self._path(row, OBSERVED).parent, {OBSERVED: to_json(observed)})
        before, after = self._text(row, BEFORE), self._text(row, AFTER)
        telemetry = self._telemetry(row, result)
        return Seen(
            findings=found(before, after, observed, result, workload, prompts_in(workload)),
            telemetry=telemetry,
            ceiling=self._ceilings().of(row, result, telemetry, self._sampling().gpus),
        )

    def forget(self, row: MeasurementRow, *, keep: bool = False) -> None:
        """End sampling for this attempt, and remove what it left on the hosts."""
        if keep:
            keep_files(self._path(row, BEFORE).parent, sampling.end(self._sampling(), row))
        sampling.forget(self._sampling(), row)

    def _telemetry(self, row: MeasurementRow, result: BenchResult | None) -> Mapping[str, Json]:
        keep_files(self._path(row, BEFORE).parent, sampling.end(self._sampling(), row))
        kept = {name: content for name in FILES if (content := self._content(row, name)) is not None}
        return dict(summary(kept, result.duration if result else None))

    def _sampling(self) -> Sampled:
        """Say what is sampled; which GPUs those are is read once."""
        if not self._sampled:
            bench, ground = self.bench, self.ground
            preload = Preload(self.trial.run_id, ground.server or ground.host.name, bench.client)
            self._sampled.append(
                Sampled(
                    host=ground.host,
                    session=ground.session,
                    client=bench.client,
                    client_session=bench.session,
                    endpoints=self._endpoints(),
                    units=self.units,
                    client_units=(f"{preload.unit}.service",),
                    gpus=self._gpus(),
                    limit_s=bench.limit_s,
                )
            )
        return self._sampled[0]

    def _gpus(self) -> tuple[Gpu, ...]:
        if not self.trial.gpus.indices:
            return ()
        known = self.ground.read_facts(self.ground.session).gpus
        if isinstance(known, Missing):
            return ()
        return tuple(gpu for gpu in known if gpu.index in self.trial.gpus.indices)

    def _strangers(self) -> tuple[str, ...]:
        gpus: GpuSet = self.trial.gpus
        if not gpus.indices:
            return ()
        facts = self.ground.read_facts(self.ground.session)
        return tuple(map(str, intruders(facts, gpus, {self.server.unit})))

    def _ceilings(self) -> Nearness:
        if not self._nearness:
            self._nearness.append(Nearness(self.ground, self.trial))
        return self._nearness[0]

    def _endpoints(self) -> Sequence[Endpoint]:
        return self.server.endpoints or ((self.server.address, self.server.port),)

    def _vocabulary_size(self) -> int | None:
        if not self._vocabulary:
            self._vocabulary.append(
                vocabulary(self.ground.session, self.ground.host.prefix, self.server.model)
            )
        return self._vocabulary[0]

    def _head(self, row: MeasurementRow) -> str:
        return f"{self._attempt(row)}{self.invocation or 'unknown'}"

    @staticmethod
    def _attempt(row: MeasurementRow) -> str:
        return f"# fleetbench: attempt {row.attempt}, invocation "

    def _path(self, row: MeasurementRow, name: str) -> Path:
        return self.ground.store.directory(row.run_id) / row.directory / name

    def _content(self, row: MeasurementRow, name: str) -> bytes | None:
        try:
            return raw_files.read(self._path(row, name).parent, name)
        except Unreadable:
            return None

    def _text(self, row: MeasurementRow, name: str) -> str:
        return (self._content(row, name) or b"").decode("utf-8", "replace")

    def _keep(self, row: MeasurementRow, name: str, head: str, seen: Scrape) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seen.at))
        gap = f"{NOT_READ}{seen.problem}\n" if seen.problem else ""
        content = f"{head}\n# {at}\n{gap}{seen.text}".encode()
        keep_files(self._path(row, name).parent, {name: content})


def vocabulary(session: DurableSession, prefix: str, model: str) -> int | None:
    """Return how many token ids a model on the host has, from its config.json; None when it does not say."""
    answer = session.read(bash(_VOCABULARY, prefix, model), timeout_s=30).stdout.strip()
    return int(answer) if re.fullmatch(r"[1-9]\d{0,8}", answer) else None


def prompts_in(workload: Workload) -> tuple[str, ...] | None:
    """Return the texts of a workload's prompt file; None when it has none, or it cannot be read."""
    return _prompts_of(workload.prompts) if workload.prompts else None


def digest_of(workload: Workload) -> str:
    """Return the hash of a workload's prompt file; empty when it has none, or it cannot be read."""
    try:
        return hashlib.sha256(Path(workload.prompts).read_bytes()).hexdigest() if workload.prompts else ""
    except OSError:
        return ""


@lru_cache(maxsize=4)
def _prompts_of(path: str) -> tuple[str, ...] | None:
    file = Path(path)
    try:
        if file.stat().st_size > _LARGEST_PROMPTS:
            return None
        return prompts_of(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
