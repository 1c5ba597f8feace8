"""One file a shape of T(S): how it is fitted to many runs of neighbouring sizes at once."""
