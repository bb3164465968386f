"""Drawing outcomes from simulators, in one process or many, with checkpoints."""
