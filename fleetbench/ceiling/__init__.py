"""How fast a model can be on given hardware at most, how near a measurement came, and what holds it back."""
