"""What the tests of the paper's reproduction share."""

import pytest

from almostsure.paper import experiments, sampling


@pytest.fixture
def fresh():
    """Experiments are computed once in a process; whoever breaks something must not see, or leave, a stored one."""
    stored = (experiments.experiment, sampling.sample_curve)
    for function in stored:
        function.cache_clear()
    yield
    for function in stored:
        function.cache_clear()
