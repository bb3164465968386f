"""The installed package with its core dependencies only: it works, and says what it lacks."""

import importlib.util
import sys
from importlib import resources

for extra in ("stormpy", "hypothesis", "pytest", "matplotlib"):
    assert importlib.util.find_spec(extra) is None, f"{extra} must not be in the bare environment"

import almostsure as asure  # noqa: E402

assert "site-packages" in asure.__file__, asure.__file__
assert resources.files("almostsure").joinpath("py.typed").is_file(), "py.typed must be shipped"

mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
print(mdp)
sys.exit(0)
