"""Episodes of a policy, many at a time."""
