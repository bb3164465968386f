"""Settings that all tests share."""

import os
import random
import secrets
import signal

import pytest
from hypothesis import settings

from almostsure import MDP, from_transitions

# The same examples in every run, and no time limit per example: the first call of a kernel compiles it.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser):
    """``--shuffle`` runs the tests in random order and prints the seed; ``--shuffle=SEED`` repeats an order."""
    seed = os.environ.setdefault("SHUFFLE_SEED", secrets.token_hex(4))  # the same for all workers of a run
    parser.addoption("--shuffle", nargs="?", const=seed, metavar="SEED", help="run the tests in random order")


def pytest_report_header(config):
    seed = config.getoption("--shuffle")
    return f"shuffled with seed {seed}" if seed else None


def pytest_collection_modifyitems(config, items):
    if seed := config.getoption("--shuffle"):
        random.Random(seed).shuffle(items)


@pytest.fixture(autouse=True)
def ctrl_c():
    """Enable Ctrl-C in the tests and their child processes, even if it is ignored, as in ``nohup make test &``.

    A signal that is ignored is also ignored in child processes; one with a handler has its default there.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def paper():
    """The paper's model: left has reward 1, and damage 1 with some probability; right ends the episode."""

    def build(damage_probability: float = 1.0) -> MDP:
        q = damage_probability
        rows = [(0, 0, 0, q, 1, 1), (0, 0, 0, 1 - q, 1, 0), (0, 1, 1, 1, 0, 0)]
        return from_transitions(*zip(*rows, strict=True), terminal=[1], action_names=["left", "right"])

    return build


@pytest.fixture
def coin():
    """Two actions: wait without damage, or go with damage and reward."""
    rows = [(0, 0, 0, 1, 0, 0), (0, 1, 1, 1, 1, 1)]
    return from_transitions(*zip(*rows, strict=True), terminal=[1], action_names=["wait", "go"])
