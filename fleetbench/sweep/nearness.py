"""How near the measurements of one trial come to the ceiling of its hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fleetbench.bench.left import keep_files
from fleetbench.ceiling.models import architecture_named
from fleetbench.ceiling.row import Served, ceiling_of
from fleetbench.facts.values import Gpu
from fleetbench.model import Device
from fleetbench.plan.architecture import Architecture
from fleetbench.results.rows import NOTHING, Json, MeasurementRow, TrialRow
from fleetbench.results.values import BenchResult
from fleetbench.sweep.ground import Ground
from fleetbench.sweep.shape import KEPT, architecture_in, texts_on
from fleetbench.units import exec_arguments


@dataclass(slots=True)
class Nearness:
    """The ceilings of one trial. The model's shape is read once, from the host that serves it."""

    ground: Ground
    trial: TrialRow
    _shape: list[Architecture | None] = field(default_factory=list)

    def of(
        self,
        row: MeasurementRow,
        result: BenchResult | None,
        telemetry: Mapping[str, Json],
        gpus: Sequence[Gpu],
    ) -> Mapping[str, Json]:
        """Return what `MeasurementRow.ceiling` keeps of one measurement: nothing on a CPU host.

        `gpus` are those that the trial has.
        """
        ground = self.ground
        if not gpus or result is None or ground.host.build.device is Device.CPU:
            return NOTHING
        # What the server settled on was written down after this trial's row was read.
        trial = next((now for now in ground.store.trials(row.run_id) if now.number == row.trial), self.trial)
        return ceiling_of(
            self._architecture(),
            gpus,
            trial.config,
            trial.workloads[row.workload_index],
            result,
            telemetry,
            Served(
                words=(
                    *ground.model.serve_args,
                    *trial.config.serve_args,
                    *exec_arguments(trial.unit_text)[3:],
                ),
                effective=trial.effective,
                version=trial.vllm_version or ground.host.build.version,
                client_program=row.client_program,
            ),
        )

    @property
    def _place(self) -> Path:
        return self.ground.store.directory(self.trial.run_id) / f"trial-{self.trial.number:02d}"

    def _architecture(self) -> Architecture | None:
        if not self._shape:
            repo = self.ground.model.repo
            texts = texts_on(self.ground.session, self.ground.host.prefix, repo)
            files = {name: text.encode() for name, text in zip(KEPT, texts or (), strict=False) if text}
            keep_files(self._place, files)
            self._shape.append(architecture_in(files) or architecture_named(repo))
        return self._shape[0]
