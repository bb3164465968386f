"""Which environments of a vector begin an episode."""

import pytest

from almostsure.errors import ArgumentError
from almostsure.gym import (
    ModelVectorEnv,
    VectorDamageTracker,
)


def test_a_vector_must_have_an_autoreset_mode():
    envs = ModelVectorEnv("paper", 2)
    envs.metadata = {}
    with pytest.raises(ArgumentError, match=r"must say in metadata\['autoreset_mode'\]"):
        VectorDamageTracker(envs)
