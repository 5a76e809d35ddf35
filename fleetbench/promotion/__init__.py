"""From a trial that was measured to the persistent service that equals it, and the way back when it fails.

Reading order: `candidate` (which trial, and what speaks against it), `unit_text` and `measured` (what of its
unit decides how fast it is), `place` (where the service goes on a host), `target` (the units that are wanted
there), `changes` (what differs, and why), `intent` (what has to be done), `install` (proven, or undone).
"""
