"""One file a parallelism: what it communicates, call by call."""
