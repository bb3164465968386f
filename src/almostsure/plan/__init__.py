"""Best policies under constraints."""
