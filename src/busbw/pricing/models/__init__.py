"""One file a family of models: the shapes of its tensors from a few numbers, and the well-known members."""
