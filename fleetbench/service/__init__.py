"""The life of one server: stop, drain, start, ready or cause."""
