"""Charts of entries: one Vega-Lite specification each; how they are drawn: `fleetbench.drawing`."""

from fleetbench.report.charts.chosen import charts_of_entries, charts_of_run
from fleetbench.report.charts.frame import Chart, Section

__all__ = ["Chart", "Section", "charts_of_entries", "charts_of_run"]
