"""Live capture: the only place in this room that imports torch."""
