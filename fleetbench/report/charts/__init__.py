"""Charts of entries: one Vega-Lite specification each, as PNG, as SVG and interactive."""

from fleetbench.report.charts.chosen import charts_of_entries, charts_of_run
from fleetbench.report.charts.frame import Chart, Section, png_of, png_of_svg, svg_of

__all__ = ["Chart", "Section", "charts_of_entries", "charts_of_run", "png_of", "png_of_svg", "svg_of"]
