"""Simulation of policies, many episodes at once."""
