"""Vega-Lite specifications to pictures: by a renderer in this process, or by several beside it."""
