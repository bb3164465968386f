"""from_gymnasium: the tables of Gymnasium's toy environments, and how their episodes end."""

import gymnasium
import numpy as np
import pytest

from almostsure.errors import ModelError
from almostsure.model.build.tables import from_gymnasium

VARIANTS = [
    ("FrozenLake-v1", {}),
    ("FrozenLake-v1", {"is_slippery": False, "map_name": "8x8"}),
    ("CliffWalking-v1", {}),
    ("CliffWalking-v1", {"is_slippery": True}),
    ("Taxi-v4", {}),
    ("Taxi-v4", {"is_rainy": True}),
]


def no_damage(s, a, s2, r, terminated):
    return 0


def hurts(s, a, s2, r, terminated):
    return int(r < -1) + 2 * (terminated and r == 0)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_every_outcome_of_the_table_is_in_the_model(name, options):
    env = gymnasium.make(name, **options)
    mdp = from_gymnasium(env, hurts)
    assert mdp == from_gymnasium(name, hurts, **options)
    terminal, table = mdp.is_terminal(), env.unwrapped.P
    for s, row in table.items():
        for a, outcomes in row.items():
            if terminal[s]:
                continue
            expected = {}
            for p, s2, r, terminated in outcomes:
                key = ("end" if terminated else int(s2), float(r), hurts(s, a, s2, r, terminated))
                expected[key] = expected.get(key, 0) + p
            found = {}
            for s2, p, r, d in mdp.outcomes(s, a):
                key = ("end" if terminal[s2] else s2, r, d)
                found[key] = found.get(key, 0) + p
            assert found == pytest.approx(expected)
    env.close()


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_the_initial_distribution_is_that_of_the_environment(name, options):
    env = gymnasium.make(name, **options).unwrapped
    mdp = from_gymnasium(env, no_damage)
    assert mdp.initial_states.tolist() == np.flatnonzero(env.initial_state_distrib).tolist()
    assert mdp.initial_probabilities == pytest.approx(env.initial_state_distrib[mdp.initial_states])


def test_frozen_lake_ends_in_its_holes_and_goal():
    mdp = from_gymnasium("FrozenLake-v1", lambda s, a, s2, r, terminated: terminated and r == 0)
    assert mdp.num_states == 16
    assert np.flatnonzero(mdp.is_terminal()).tolist() == [5, 7, 11, 12, 15]
    assert mdp.layout.text == ("S...", ".H.H", "...H", "H..G")
    assert mdp.outcomes("r0c1", "down")[-1].next_state == mdp.state("r1c1")
    assert mdp.outcomes("r0c1", "down")[-1].damage == 1
    assert mdp.action_names == ("left", "down", "right", "up")


def test_cliff_walking_ends_in_its_goal_and_starts_again_after_a_fall():
    mdp = from_gymnasium("CliffWalking-v1", lambda s, a, s2, r, terminated: int(r == -100))
    assert mdp.num_states == 48
    assert np.flatnonzero(mdp.is_terminal()).tolist() == [47]
    assert mdp.outcomes("r3c0", "right") == [(36, 1.0, -100.0, 1)]
    assert mdp.layout.place(36) == (3, 0)
    assert mdp.layout.text[3] == "SCCCCCCCCCCG"


def test_taxi_ends_after_the_drop_off_although_the_next_state_has_outcomes():
    mdp = from_gymnasium("Taxi-v4", lambda s, a, s2, r, terminated: int(r == -10))
    assert mdp.num_states == 501
    assert np.flatnonzero(mdp.is_terminal()).tolist() == [500]
    assert mdp.state_names[500] == "end"
    ready = mdp.state("taxi r0c0, passenger taxi to red")
    assert mdp.outcomes(ready, "dropoff") == [(500, 1.0, 20.0, 0)]
    assert mdp.outcomes(ready, "pickup") == [(ready, 1.0, -10.0, 1)]
    assert mdp.max_damage == 1


def test_only_the_start_may_be_changed():
    mdp = from_gymnasium("FrozenLake-v1", no_damage, initial="r2c2")
    assert mdp.initial_state == 10
    assert from_gymnasium("Taxi-v4", no_damage, initial=3).initial_state == 3


class Table:
    """A minimal environment with a table."""

    def __init__(self, table):
        self.P = table


def test_a_state_with_damage_in_which_episodes_continue_is_not_made_terminal():
    """Episodes may continue in state 1, with one more damage; after a terminated step they must not."""
    table = {
        0: {0: [(0.5, 1, 0, True), (0.5, 1, 0, False)]},
        1: {0: [(1.0, 1, 0, True)]},
    }
    mdp = from_gymnasium(Table(table), lambda s, a, s2, r, terminated: int(s == 1))
    assert mdp.num_states == 3
    assert mdp.outcomes(0, 0) == [(1, 0.5, 0.0, 0), (2, 0.5, 0.0, 0)]
    assert mdp.outcomes(1, 0) == [(2, 1.0, 0.0, 1)]
    harmless = from_gymnasium(Table(table), no_damage)
    assert harmless.num_states == 2
    assert harmless.outcomes(0, 0) == [(1, 1.0, 0.0, 0)]


def test_a_state_that_episodes_leave_again_is_not_made_terminal():
    table = {0: {0: [(0.5, 1, 0, True), (0.5, 1, 0, False)]}, 1: {0: [(1.0, 0, 0, False)]}}
    mdp = from_gymnasium(Table(table), no_damage)
    assert mdp.num_states == 3
    assert mdp.outcomes(1, 0) == [(0, 1.0, 0.0, 0)]


def test_the_state_that_episodes_end_in_has_no_cell():
    """If CliffWalking starts in its goal, this is not terminal; the end is a state outside the map."""
    mdp = from_gymnasium("CliffWalking-v1", no_damage, initial=47)
    assert mdp.num_states == 49
    assert mdp.layout.cell[47:].tolist() == [47, -1]


def test_an_initial_state_that_is_also_an_end_is_not_made_terminal():
    table = {0: {0: [(1.0, 1, 1, False)]}, 1: {0: [(1.0, 0, 1, True)]}}
    mdp = from_gymnasium(Table(table), no_damage)
    assert mdp.num_states == 3
    assert mdp.outcomes(0, 0) == [(1, 1.0, 1.0, 0)]


def test_environments_without_a_table_are_refused_with_a_remedy():
    with pytest.raises(
        ModelError, match=r"CartPole-v1 must have a .*table env.unwrapped.P; it has none\. .* abstract\('CartPole-v1'\)"
    ):
        from_gymnasium("CartPole-v1", no_damage)
    with pytest.raises(
        ModelError, match=r"it has none\. .* asure\.explore\(env\) .* OnlineShield\(env, unknown='allow'\)"
    ):
        from_gymnasium("Blackjack-v1")
    with pytest.raises(ModelError, match=r"the states of env.unwrapped.P must be 0 … 1\. Use from_table"):
        from_gymnasium(Table({0: {}, 5: {}}), no_damage)
    with pytest.raises(ModelError, match="must describe the environment; it has no fickle passenger"):
        from_gymnasium("Taxi-v4", no_damage, fickle_passenger=True)


def test_bad_damage_functions_are_refused():
    five = r"damage must be a function of \(state, action, next_state, reward, terminated\), in this order"
    for wrong in (3, lambda s, a: 0, lambda s, a, s2, r, terminated, more: 0):
        with pytest.raises(ModelError, match=five):
            from_gymnasium("FrozenLake-v1", wrong)
    with pytest.raises(
        ModelError, match=r"damage\(…\) must return .* it returned None at state 0, action 0\. Is a return"
    ):
        from_gymnasium("FrozenLake-v1", lambda *_: None)
    with pytest.raises(ModelError, match=r"damages must be integers 0 … 255; got -1"):
        from_gymnasium("FrozenLake-v1", lambda *_: -1)


def test_normalise_rescales():
    table = {0: {0: [(0.3, 0, 0, False), (0.6, 1, 0, True)]}, 1: {0: [(1.0, 1, 0, True)]}}
    with pytest.raises(ModelError, match=r"must sum to 1 within 1e-09; got 0\.9\. Pass normalise=True"):
        from_gymnasium(Table(table), no_damage)
    assert from_gymnasium(Table(table), no_damage, normalise=True).outcomes(0, 0)[0].probability == pytest.approx(1 / 3)


def test_options_need_an_id():
    env = gymnasium.make("FrozenLake-v1")
    with pytest.raises(ModelError, match="is_slippery must be passed with an environment's id"):
        from_gymnasium(env, no_damage, is_slippery=False)
    env.close()


def test_starts_without_any_probability_are_refused():
    lake = gymnasium.make("FrozenLake-v1")
    lake.unwrapped.initial_state_distrib = np.zeros(16)
    with pytest.raises(ModelError, match="the initial distribution must have at least one state"):
        from_gymnasium(lake)
