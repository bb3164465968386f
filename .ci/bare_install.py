"""The installed package with its core dependencies only: it works, and says what it lacks."""

import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path

EXTRAS = ("stormpy", "hypothesis", "pytest", "matplotlib")


def refused(message: str, action: Callable[..., object], *arguments: object, **options: object) -> None:
    """Check that an action is refused for want of an extra, with the command that installs it."""
    from almostsure.errors import MissingExtra

    try:
        action(*arguments, **options)
    except MissingExtra as error:
        assert message in str(error), f"expected {message!r} in {error!s}"
    else:
        raise AssertionError(f"{action} must be refused without its extra")


for extra in EXTRAS:
    assert importlib.util.find_spec(extra) is None, f"{extra} must not be in the bare environment"

import almostsure as asure  # noqa: E402

assert "site-packages" in asure.__file__, asure.__file__
assert resources.files("almostsure").joinpath("py.typed").is_file(), "py.typed must be shipped"
missing = [name for name in asure.__all__ if not hasattr(asure, name)]
assert not missing, missing

# The paper's two states: left stays, pays and hurts; right ends it.
mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
minimal = asure.minimal_budget(mdp)
asure.check_minimal_budget(mdp, minimal)
assert minimal.of(0, 0) == 1, minimal
assert minimal.of(0) == 0, minimal

# The best return is what the paper says, with certainty and on average.
assert abs(asure.solve_policy(mdp, asure.AlmostSure(5)).value - 5) < 1e-6
assert abs(asure.solve_policy(mdp, asure.Expected(3)).value - 3) < 1e-6

# The compiled engine agrees with the plain one.
example = asure.example("quicksand")
plain, compiled = (asure.minimal_budget(example, backend=backend, check="always") for backend in ("plain", "compiled"))
assert (plain.of_choice == compiled.of_choice).all()

example.save("example.umb")
assert asure.load("example.umb") == example

Path("model.prism").write_text('mdp module m x : bool init true; [] x -> true; endmodule label "bad" = x;')
refused("pip install 'almostsure[storm]'", asure.from_prism, "model.prism", damage="bad")
refused("pip install 'almostsure[test]'", importlib.import_module, "almostsure.testing.models")

subprocess.run([sys.executable, "-m", "almostsure", "demo"], check=True)
assert Path("almostsure-report.html").stat().st_size > 10_000
print("The bare install works.")
