"""How the controller reaches a host."""
