"""What the tests of the paper's reproduction share."""

import pytest

from almostsure.paper import experiments


@pytest.fixture
def fresh():
    """Experiments are computed once in a process; whoever breaks something must not see, or leave, a stored one."""
    experiments.experiment.cache_clear()
    yield
    experiments.experiment.cache_clear()
