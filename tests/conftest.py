"""Settings that all tests share."""

from hypothesis import settings

# The same examples in every run, and no time limit an example: the first call of a kernel compiles it.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
