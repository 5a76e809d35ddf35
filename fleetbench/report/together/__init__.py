"""A report on several runs: their entries beside each other, named by what tells them apart."""
