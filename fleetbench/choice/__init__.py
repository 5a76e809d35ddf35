"""From entries to a decision: SLOs, objectives, goodput, cost, and the configuration to deploy. Pure."""
