"""Figures that others measured: files of other tools and published tables, read, judged and kept apart."""
