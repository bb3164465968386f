"""Fixtures of the tests of policies."""

import pytest

from almostsure import from_transitions


@pytest.fixture
def mdp():
    """Three states; state 1 lacks action 0; state 2 is terminal."""
    rows = [(0, 0, 1, 1, 1, 1), (0, 1, 2, 1, 0, 0), (1, 1, 0, 1, 0, 0), (1, 2, 2, 1, 5, 2)]
    return from_transitions(
        *zip(*rows, strict=True),
        terminal=[2],
        state_names=["home", "field", "end"],
        action_names=["out", "back", "dash"],
    )
