"""The inventory: hosts, models and sweeps as people write them in TOML, read into the nouns of model.py."""
