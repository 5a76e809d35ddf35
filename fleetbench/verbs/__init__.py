"""What `tasks.py` calls: one function a verb. Loads the inventory, reaches hosts, writes to the console."""
