"""Drawing outcomes from simulators, in one process or many, and keeping what was drawn."""
