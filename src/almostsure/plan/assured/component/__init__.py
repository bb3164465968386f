"""One strongly connected component of the pairs (state, remaining)."""
