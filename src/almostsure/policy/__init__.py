"""Policies under a constraint on damage: solving, evaluating, simulating, comparing."""
