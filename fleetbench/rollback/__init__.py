"""The way back of a change to units that did not work out: everything as it was, or in words what is not.

What stood there is written down before anything changes (`standing`, `openings`); what could not be put back
is refused there, while nothing has happened yet. One step of the way back that fails ends none of the others.
"""
