"""One file a collective: its counts, its bus factor, its postcondition."""
