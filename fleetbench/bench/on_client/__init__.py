"""Programs that travel to the client's host: one file each, standard library only, Python 3.9 or newer."""
