"""A sweep: borrow, measure each trial, give back."""
