"""``from_function``: models found by exploration."""

import random

import numpy as np
import pytest

import almostsure as asure
from almostsure import minimal_budget
from almostsure.errors import ArgumentError, Interrupted, LimitReached, ModelError, UnknownName
from almostsure.model.build.examples import example_names


def walk(position, action):
    """A walk on 0 … 4 with slips; entering 0 does damage, 4 ends it."""
    step = 1 if action == "right" else -1
    ahead, slip = (min(max(position + s, 0), 4) for s in (step, -step))
    return [(0.75, ahead, float(ahead == 4), int(ahead == 0)), (0.25, slip, float(slip == 4), int(slip == 0))]


def actions(position):
    return [] if position == 4 else ["left", "right"]


def test_it_is_the_model_of_its_transitions():
    mdp = asure.from_function(walk, initial=2, actions=actions)
    rows = [
        (s, a, t, p, r, d) for s in range(4) for a, name in enumerate(("left", "right")) for p, t, r, d in walk(s, name)
    ]
    same = asure.from_transitions(*zip(*rows, strict=True), terminal=[4], initial=2)
    order = [int(name) for name in mdp.state_names]
    found = asure.minimal_budget(mdp).of_state
    assert np.array_equal(found, asure.minimal_budget(same).of_state[order])
    assert mdp.action_names == ("left", "right")
    assert asure.solve_policy(mdp, asure.Expected(2.0)).value == pytest.approx(
        asure.solve_policy(same, asure.Expected(2.0)).value
    )


def test_any_hashable_value_is_a_state_and_integers_are_action_ids():
    grid = asure.from_function(
        lambda at, a: [(1.0, (at[0] + a - 3, at[1]), 0.0, 0)],
        initial={(0, "x"): 0.5, (1, "y"): 0.5},
        actions=lambda at: [] if abs(at[0]) > 2 else [2, 4],
    )
    assert grid.action_names is None
    assert grid.num_actions == 5
    assert grid.state_name(0) == "(0, 'x')"
    assert grid.observed((1, "y")) == 1
    with pytest.raises(ModelError, match=r"\(9, 'x'\) was not reached"):
        grid.observed((9, "x"))
    with pytest.raises(ModelError, match=r"was not reached .* hashable.* such as .* env: tuple\(observation\)\.$"):
        grid.observed(np.array([1, 2]))
    for at, entry in ((1, r"observation\['at'\]"), (np.array([1]), r"tuple\(observation\['at'\]\)")):
        shown = {"at": at, "day": 2}
        with pytest.raises(ModelError, match=rf"env: \({entry}, observation\['day'\]\)\.$"):
            grid.observed(shown)
    with pytest.raises(ModelError, match=r"hashable, which arrays are not"):
        grid.observed((np.array([1]), "x"))
    assert grid.initial_probabilities.tolist() == [0.5, 0.5]


def test_invalid_damages_are_named_with_their_place():
    with pytest.raises(
        ModelError, match=r"damages must be integers 0 … 255; got '1' at state 0 '0', action 0 'go', next"
    ):
        asure.from_function(lambda s, a: [(1, 1, 0, "1")], initial=0, actions=lambda s: [] if s else ["go"])


def test_action_names_are_the_numbering():
    mdp = asure.from_function(walk, initial=2, actions=actions, action_names=["rest", "right", "left"])
    assert (mdp.num_actions, mdp.actions(0).tolist()) == (3, [1, 2])
    plain = asure.from_function(walk, initial=2, actions=actions)
    for name in ("left", "right"):
        assert mdp.outcomes(0, name) == plain.outcomes(0, name)
    with pytest.raises(UnknownName, match=r"unknown action 'left'\. The action_names are: rest, right\."):
        asure.from_function(walk, initial=2, actions=actions, action_names=["rest", "right"])
    numbered = asure.from_function(lambda s, a: [(1, 1, 0, a)], initial=0, actions=[0, 1], action_names=["a", "b", "c"])
    assert (numbered.num_actions, numbered.action_name(1)) == (3, "b")


def test_integers_from_0_are_their_own_indices_and_tuples_are_looked_up():
    mdp = asure.from_function(
        lambda s, a: [(1, 0, 0, int(s == 1 and a == 0))], initial=1, actions=lambda s: [0, 1] if s else []
    )
    assert mdp.initial_state == 1
    minimal = minimal_budget(mdp)
    assert (minimal.of(1, 0), minimal.of(1, 1)) == (1, 0)
    pairs = asure.from_function(lambda s, a: [(1, (1, 1), 0, 1)], initial=(0, 0), actions=lambda s: [0] * (s == (0, 0)))
    assert minimal_budget(pairs).of((0, 0)) == 1
    with pytest.raises(ModelError, match="was not reached"):
        pairs.state((5, 5))


def test_values_that_look_alike_keep_different_names():
    mdp = asure.from_function(lambda s, a: [(1, "1", 0, 0)], initial=1, actions=lambda s: ["go"] if s == 1 else [])
    assert mdp.state_names == ("1", "'1'")


def test_outcomes_may_be_a_generator_and_equal_ones_add_up():
    def outcomes(state, action):
        yield 0.5, "end", 1.0, 0
        yield 0.5, "end", 1.0, 0

    mdp = asure.from_function(outcomes, initial="start", actions=lambda s: ["go"] * (s == "start"))
    assert mdp.outcomes("start", "go")[0].probability == 1.0


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (lambda s, a: [(0.5, 0, 0, 0)], r"must sum to 1; got 0.5 at state 0, action 'go'"),
        (lambda s, a: [], r"state 0, action 'go' has no outcomes; terminal"),
        (lambda s, a: None, r"must return or yield tuples .*; got None at state 0, action 'go': TypeError"),
        (lambda s, a: [(1, 0, 0)], r"tuples \(probability, next_state, reward, damage\); got \[\(1, 0, 0\)\]"),
        (lambda s, a: [(1, [0], 0, 0)], r"at state 0, action 'go': TypeError: unhashable"),
        (lambda s, a: [(float("nan"), 0, 0, 0)], r"must sum to 1; got nan"),
        (lambda s, a: [(1, 0, 0, 300)], r"damages must be integers 0 … 255; got 300"),
        (lambda s, a: [(1, 0, 0, -1)], r"damages must be integers 0 … 255; got -1"),
        (lambda s, a: 1 / 0, r"^outcomes\(0, 'go'\) failed: ZeroDivisionError: division by zero$"),
        (lambda s, a: ((1 / 0, s, 0, 0) for _ in "1"), r"^outcomes\(0, 'go'\) failed: ZeroDivisionError"),
    ],
)
def test_bad_outcomes(outcomes, message):
    with pytest.raises(ModelError, match=message):
        asure.from_function(outcomes, initial=0, actions=["go"])


def test_a_loaded_model_says_that_its_states_have_names(tmp_path):
    mdp = asure.from_function(lambda s, a: [(1, (1, 1), 0, 0)], initial=(0, 1), actions=["go"])
    assert mdp.state((1, 1)) == 1
    mdp.save(tmp_path / "m.umb")
    loaded = asure.load(tmp_path / "m.umb")
    message = r"^unknown state \(1, 1\)\. .*: pass str\(state\), or ByName\(mdp\)\(.*\) of .*ByName\(mdp\)\.$"
    with pytest.raises(UnknownName, match=message):
        loaded.state((1, 1))
    assert loaded.state(str((1, 1))) == 1
    with pytest.raises(UnknownName, match=r"unknown state \(1, 2\)\. States are 0 … 1\."):
        loaded.state((1, 2))


def test_bad_arguments():
    def stay(state, action):
        return [(1, state, 0, 0)]

    with pytest.raises(ArgumentError, match="outcomes must be a function"):
        asure.from_function([1], initial=0, actions=["go"])
    for wrong in ([], "go", 3):
        with pytest.raises(ArgumentError, match="actions must be one or more actions, or a function"):
            asure.from_function(stay, initial=0, actions=wrong)
    with pytest.raises(ModelError, match=r"got \[0, 1\]\. Several initial .* a mapping, \{first: 0\.5, second: 0\.5\}"):
        asure.from_function(stay, initial=[0, 1], actions=["go"])
    with pytest.raises(ModelError, match=r"states must be hashable; got array\(\[0\]\) \(initial\)"):
        asure.from_function(stay, initial=np.array([0]), actions=["go"])
    with pytest.raises(ModelError, match=r"actions\(0\) failed: KeyError"):
        asure.from_function(stay, initial=0, actions=lambda s: {}[s])
    with pytest.raises(ModelError, match=r"actions must be hashable; got \[1\] at 0"):
        asure.from_function(stay, initial=0, actions=lambda s: [[1]])
    for labels, message in (
        (["wet"], r"labels must map names to functions of the state; got \['wet'\]"),
        ({"wet": [0]}, r"label 'wet' must be a function of the state; got \[0\]"),
        ({"wet": lambda s: s.depth}, r"label 'wet' failed at state 0: AttributeError"),
    ):
        with pytest.raises(ModelError, match=message):
            asure.from_function(stay, initial=0, actions=["go"], labels=labels)


def test_states_that_never_repeat_reach_the_limit():
    with pytest.raises(LimitReached, match=r"more than max_states = 100 states; the last one found is 100"):
        asure.from_function(lambda s, a: [(1, s + 1, 0, 0)], initial=0, actions=["up"], max_states=100)


def test_an_interrupt_reports_the_progress():
    def outcomes(state, action):
        if state == 50:
            raise KeyboardInterrupt
        return [(0.5, state + 1, 0, 0), (0.5, state + 2, 0, 0)]

    with pytest.raises(Interrupted, match=r"after 50 states; 2 more were found"):
        asure.from_function(outcomes, initial=0, actions=["up"])


def test_random_models_are_rebuilt():
    rng = random.Random(3)
    for _ in range(50):
        table = {
            (s, a): [(0.5, rng.randrange(6), rng.random(), rng.randrange(3)) for _ in range(2)]
            for s in range(6)
            for a in range(2)
        }
        mdp = asure.from_function(lambda s, a, table=table: table[s, a], initial=0, actions=[0, 1])
        back = {int(name): s for s, name in enumerate(mdp.state_names)}
        for (s, a), rows in table.items():
            if s in back:
                found = sum(o.damage * o.probability for o in mdp.outcomes(back[s], a))
                assert found == pytest.approx(sum(p * d for p, _, _, d in rows))


@pytest.mark.parametrize("name", example_names())
def test_every_example_is_rebuilt(name):
    original = asure.example(name)
    ends = original.is_terminal()

    def outcomes(state, action):
        return [(o.probability, o.next_state, o.reward, o.damage) for o in original.outcomes(state, action)]

    def choices(state):
        return [] if ends[state] else [int(original.choice_action[c]) for c in original.choices(state)]

    start = zip(original.initial_states.tolist(), original.initial_probabilities.tolist(), strict=True)
    rebuilt = asure.from_function(outcomes, initial=dict(start), actions=choices)
    of = np.array([int(name) for name in rebuilt.state_names])  # the original's state of each: those that are reached
    assert np.array_equal(minimal_budget(rebuilt).of_state, minimal_budget(original).of_state[of])
    assert np.array_equal(rebuilt.is_terminal(), ends[of])
    for state, was in enumerate(of.tolist()):
        for action in choices(was):
            found = {(of[o.next_state], o.reward, o.damage): o.probability for o in rebuilt.outcomes(state, action)}
            wanted = {(t, reward, damage): p for p, t, reward, damage in outcomes(was, action)}
            assert found == pytest.approx(wanted)
