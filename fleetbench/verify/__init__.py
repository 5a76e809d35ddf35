"""Stored numbers, derived once more from the raw files that they came from."""
