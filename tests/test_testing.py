"""The Hypothesis strategies: all special cases occur, and counterexamples shrink."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings

from almostsure.testing import mdps, transitions

FEW = settings(max_examples=50)


def reachable(mdp):
    seen, todo = set(mdp.initial_states.tolist()), mdp.initial_states.tolist()
    while todo:
        state = todo.pop()
        for action in mdp.actions(state):
            for successor, *_ in mdp.outcomes(state, int(action)):
                if successor not in seen:
                    seen.add(successor)
                    todo.append(successor)
    return seen


def budgets(mdp):
    k, cap = np.zeros(mdp.num_states, np.int64), mdp.num_states * max(mdp.max_damage, 1) + 1
    while True:
        of_choice = np.maximum.reduceat(k[mdp.successor] + mdp.damage, mdp.outcome_ptr[:-1])
        new = np.minimum(np.minimum.reduceat(of_choice, mdp.choice_ptr[:-1]), cap)
        if np.array_equal(new, k):
            return np.where(k == cap, -1, k)
        k = new


def test_the_simplest_model_is_one_terminal_state():
    mdp = find(mdps(), lambda mdp: True, settings=FEW)
    assert (mdp.num_states, mdp.num_outcomes, mdp.is_terminal().tolist()) == (1, 1, [True])


def source(mdp):
    return np.repeat(mdp.choice_states(), np.diff(mdp.outcome_ptr))


FEATURES = {
    "infinite budgets": lambda mdp: (budgets(mdp) == -1).any(),
    "finite budgets above 5": lambda mdp: (budgets(mdp) > 5).any(),
    "a damage-free cycle": lambda mdp: (
        (mdp.successor == source(mdp)) & (mdp.damage == 0) & ~mdp.is_terminal()[source(mdp)]
    ).any(),
    "unreachable states": lambda mdp: len(reachable(mdp)) < mdp.num_states,
    "two outcomes to one successor": lambda mdp: any(
        len({t for t, *_ in rows}) < len(rows)
        for s in range(mdp.num_states) for a in mdp.actions(s) for rows in [mdp.outcomes(s, int(a))]
    ),
    "different action sets": lambda mdp: len({tuple(mdp.actions(s)) for s in range(mdp.num_states)}) > 2,
    "the largest damage": lambda mdp: mdp.max_damage == 5,
    "rewards of both signs": lambda mdp: mdp.reward.min() < 0 < mdp.reward.max(),
    "several starts": lambda mdp: mdp.initial_states.size > 1,
    "one state that never ends": lambda mdp: mdp.num_states == 1 and not mdp.is_terminal().any(),
}  # fmt: skip


@pytest.mark.parametrize("feature", FEATURES)
def test_special_cases_occur(feature):
    find(mdps(), FEATURES[feature], settings=settings(max_examples=2000, phases=[Phase.generate]))


def test_counterexamples_shrink():
    mdp = find(mdps(), lambda mdp: (budgets(mdp) == -1).any(), settings=FEW)
    assert (mdp.num_states, mdp.num_outcomes) == (1, 1)
    assert mdp.outcomes(0, 0) == [(0, 1.0, 0.0, 1)]
    assert find(mdps(), lambda mdp: (budgets(mdp) == 2).any(), settings=FEW).num_states <= 2


@given(mdps(proper=True))
def test_proper_models_end_under_every_policy(mdp):
    """The probability of not having ended after n steps, under the worst policy, tends to 0."""
    alive = (~mdp.is_terminal()).astype(float)
    for _ in range(3000):
        worst = np.add.reduceat(mdp.probability * alive[mdp.successor], mdp.outcome_ptr[:-1])
        alive = np.where(mdp.is_terminal(), 0, np.maximum.reduceat(worst, mdp.choice_ptr[:-1]))
        if alive.max() < 0.5:
            return
    pytest.fail("a policy never ends")


@given(mdps(max_states=3, max_actions=2, max_outcomes=2, max_damage=1))
def test_sizes_are_kept(mdp):
    assert mdp.num_states <= 3
    assert mdp.num_actions <= 2
    assert mdp.max_damage <= 1
    assert np.diff(mdp.outcome_ptr).max() <= 2


@given(transitions())
def test_transitions_are_arguments_of_from_transitions(content):
    mdp = content.build()
    assert mdp.num_states == content.num_states
    assert all(mdp.is_terminal()[content.terminal])
    assert len({len(column) for column in content.columns}) == 1


def test_without_hypothesis_the_install_command_is_printed():
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from almostsure.testing import check_shielded_env\nfrom almostsure.testing import mdps"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'almostsure[test]'" in done.stderr
    assert done.returncode == 1
