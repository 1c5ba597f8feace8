"""Ways to run a collective, one file each, named as `--backend` says (or the family that it belongs to)."""
