"""What runs beside a server while a measurement does: one file, sent there whole, standard library only."""
