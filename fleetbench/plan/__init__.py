"""Which configurations, where and in which order: pure, from the inventory and the facts."""
