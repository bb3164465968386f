"""Fixtures of the tests of the paper's reproduction."""

import pytest

from almostsure.paper import experiments


@pytest.fixture
def fresh():
    """Clear the cache of experiments, before and after a test that breaks something on purpose."""
    experiments.experiment.cache_clear()
    yield
    experiments.experiment.cache_clear()
