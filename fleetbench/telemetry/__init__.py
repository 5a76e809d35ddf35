"""What was sampled while a measurement ran: its names, its files, and the figures that they come to. Pure."""
