"""What samplers may return, and the errors for anything else."""

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import ArgumentError, ModelError, UnknownName
from almostsure.learn import EnvSampler, FunctionSampler, Sampler, count_outcomes, learn_minimal_budget
from almostsure.learn.sampling.samplers import as_sampler, space_of

RNG = np.random.default_rng(0)


class Coin:
    """One state, one action: a coin that does damage on tails."""

    num_states = 1
    max_damage = 1

    def __init__(self, **answers):
        self.answers = answers

    def actions(self, state):
        return [0]

    def sample(self, states, actions, rng):
        good = {
            "next_states": states, "rewards": np.ones(states.size), "damages": rng.integers(0, 2, states.size),
        }  # fmt: skip
        return tuple({**good, **{name: make(states.size) for name, make in self.answers.items()}}.values())


def test_a_vectorised_sampler_needs_three_things():
    assert isinstance(Coin(), Sampler)
    counts = count_outcomes(Coin(), 100, seed=1)
    assert counts.choice.tolist() == [0, 0]
    assert counts.damage.tolist() == [0, 1]
    assert counts.times.sum() == counts.total == 100


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"next_states": lambda n: np.zeros(n + 1)}, r"return 7 next_states, one per choice; got shape \[8\]"),
        ({"rewards": lambda n: 1.0}, r"return 7 rewards, one per choice; got shape \[\]"),
        ({"next_states": lambda n: np.ones(n, int)}, r"next states must be integers 0 … 0; .* 1 at choice 0 .*6 more"),
        ({"next_states": lambda n: np.full(n, -1)}, "next states must be integers 0 … 0"),
        ({"next_states": lambda n: np.full(n, 0.5)}, "next states must be integers"),
        ({"rewards": lambda n: np.full(n, np.nan)}, "rewards must be finite; the sampler returned nan"),
        ({"rewards": lambda n: np.full(n, np.inf)}, "rewards must be finite"),
        ({"rewards": lambda n: ["much"] * n}, "rewards must be numbers; the sampler returned 'much' at choice 0"),
        ({"next_states": lambda n: [0, None, *[0] * (n - 2)]}, r"must be numbers; .* None at choice \d+ \(state 0"),
        ({"next_states": lambda n: [10**30] * n}, "next_states must be numbers; the sampler returned 1000"),
        ({"damages": lambda n: np.full(n, 0.5)}, "damages must be integers 0 … 1; the sampler returned 0.5"),
        ({"damages": lambda n: np.full(n, -1)}, "damages must be integers 0 … 1; the sampler returned -1"),
        ({"damages": lambda n: np.full(n, 2)}, "damages must be integers 0 … 1; the sampler returned 2"),
        ({"damages": lambda n: np.full(n, np.nan)}, "damages must be integers"),
        ({"rewards": lambda n: [[1], [1, 2]] * n}, "rewards must be 7 numbers"),
    ],
)
def test_wrong_answers_are_named(answers, message):
    with pytest.raises(ModelError, match=message):
        as_sampler(Coin(**answers)).draw(np.zeros(7, np.int64), RNG)


def test_errors_have_the_place_of_the_wrong_answer():
    with pytest.raises(ModelError, match="choice 0") as caught:
        count_outcomes(Coin(damages=lambda n: np.full(n, 9)), 5)
    assert (caught.value.state, caught.value.action, caught.value.choice) == (0, 0, 0)


def test_other_ways_to_fail():
    class Pair(Coin):
        def sample(self, states, actions, rng):
            return states, states

    class Broken(Coin):
        def sample(self, states, actions, rng):
            raise RuntimeError("no licence")

    with pytest.raises(ModelError, match=r"must return \(next_states, rewards, damages\)"):
        count_outcomes(Pair(), 1)
    with pytest.raises(ModelError, match="the sampler failed: RuntimeError: no licence"):
        count_outcomes(Broken(), 1)
    with pytest.raises(ModelError, match="must be a model, an environment or have num_states, actions and sample"):
        count_outcomes(lambda s, a: (s, 0, 0), 1)
    with pytest.raises(ModelError, match=r"got the class Pair\. Pass an instance: Pair\(\)\.$"):
        count_outcomes(Pair, 1)
    with pytest.raises(UnknownName, match="Did you mean 'paper'"):
        count_outcomes("papr", 1)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num_states", 0, "num_states must be a positive integer"),
        ("num_states", 2.5, "num_states must be a positive integer"),
        ("max_damage", 256, "max_damage must be an integer 0 … 255"),
        ("actions", lambda state: [], r"actions\(0\) must be one or more action ids"),
        ("actions", lambda state: [-1], r"actions\(0\) must be one or more action ids"),
        ("actions", lambda state: ["left"], r"actions\(0\) must be one or more action ids"),
        ("actions", lambda state: 1 / 0, r"actions\(0\) failed: ZeroDivisionError"),
        ("actions", lambda state: [[0], [1, 2]], r"actions\(0\) must be one or more action ids"),
        ("actions", 3, r"must have actions\(state\)"),
        ("initial", 7, "unknown state 7|initial"),
    ],
)
def test_wrong_spaces(name, value, message):
    coin = Coin()
    setattr(coin, name, value)
    with pytest.raises(ModelError, match=message):
        as_sampler(coin)


# ---------------------------------------------------------------------- functions


def step(state, action, rng):
    return (0, 1.0, int(rng.random() < 0.6)) if action == 0 else (1, 0.0, 0)


def test_a_function_is_a_sampler():
    learned = learn_minimal_budget(FunctionSampler(step, 2, 2, terminal=[1], max_damage=1), mu=0.2, delta=0.01, seed=1)
    assert learned.minimal.of_choice.tolist() == [1, 0, 0]
    assert learned.mdp.is_terminal().tolist() == [False, True]


def test_actions_of_a_function():
    for actions in ([[0, 1], [3]], lambda state: [0, 1] if state == 0 else [3]):
        sampler = FunctionSampler(lambda s, a, rng: (s, 0, 0), 2, actions)
        assert space_of(sampler).choice_action.tolist() == [0, 1, 3]
    with pytest.raises(ModelError, match="got none for state 1"):
        space_of(FunctionSampler(step, 2, [[0, 1]]))


def test_a_function_that_fails_names_the_place():
    def fails(state, action, rng):
        return 1 / (1 - action)

    with pytest.raises(ModelError, match="failed at state 0, action 1: ZeroDivisionError") as caught:
        count_outcomes(FunctionSampler(fails, 1, [[1]]), 3)
    assert (caught.value.state, caught.value.action) == (0, 1)
    with pytest.raises(ModelError, match=r"must return \(next_state, reward, damage\); got 1.0 at state 0, action 0"):
        count_outcomes(FunctionSampler(fails, 1, 1), 3)
    with pytest.raises(ModelError, match="damages must be integers 0 … 255"):
        count_outcomes(FunctionSampler(lambda s, a, rng: (s, 0, 0.5), 1, 1), 3)
    with pytest.raises(ModelError, match="step must be a function"):
        FunctionSampler(3, 1, 1)
    with pytest.raises(ArgumentError, match="num_states must be at least 1"):
        FunctionSampler(step, 0, 1)
    with pytest.raises(ModelError, match="terminal must be a collection of states; got 1"):
        FunctionSampler(lambda state, action, rng: (1, 0.0, 0), 2, 1, terminal=1)
    with pytest.raises(ModelError, match="terminal states must lie in 0 … 1; got 5"):
        FunctionSampler(step, 2, 1, terminal=[5])


# ---------------------------------------------------------------------- environments


def set_lake(env, state):
    env.unwrapped.s = state


def lake_damage(s, a, s2, reward, terminated):
    return int(terminated and reward == 0)


def lake(**options):
    env = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=True)
    return EnvSampler(env, set_lake, lake_damage, max_damage=1, **options)


def test_an_environment_is_a_sampler():
    learned = learn_minimal_budget(lake(), mu=0.3, delta=0.01, seed=3)
    table = asure.from_gymnasium("FrozenLake-v1", lake_damage, map_name="4x4", is_slippery=True)
    truth = asure.minimal_budget(table)
    frozen = [s for s in range(16) if s not in (5, 7, 11, 12, 15)]  # the others are terminal in the table
    assert learned.mdp.num_states == 17
    assert learned.minimal.of_state[16] == 0
    for s in frozen:
        choices = learned.mdp.choices(s)
        mine = learned.minimal.of_choice[choices.start : choices.stop]
        theirs = truth.of_choice[table.choices(s).start : table.choices(s).stop]
        assert mine.tolist() == theirs.tolist()


def test_an_environment_depends_on_the_seed_alone():
    first, second = (count_outcomes(lake(), 40, seed=5, workers=workers) for workers in (1, 2))
    assert first.times.tolist() == second.times.tolist()
    assert first.reward.tolist() == second.reward.tolist()


def test_aggregated_states_say_so():
    def first_of_two(env, state):
        env.unwrapped.s = 2 * state
        return 2 * state

    env = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=True)
    options = {"num_states": 8, "encode": lambda observation: int(observation) // 2, "max_damage": 1}
    half = EnvSampler(env, first_of_two, lake_damage, **options)
    learned = learn_minimal_budget(half, mu=0.3, delta=0.01, seed=3)
    assert learned.mdp.num_states == 9
    assert "the real states that set_state sets" in learned.statement
    assert "the real states that set_state sets" in learned.counts.confidence(0.3).statement
    assert "abstraction" not in learn_minimal_budget("paper", mu=0.3, delta=0.01, seed=3).statement


class Line(gymnasium.Env):
    """Entering metre 3 does damage, and cannot be avoided on the way to 4."""

    observation_space, action_space = gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.metre = 0
        return 0, {}

    def step(self, action):
        self.metre = min(self.metre + int(action), 4)
        return self.metre, 0.0, self.metre == 4, False, {"cost": int(self.metre == 3 and action == 1)}


def test_a_set_state_that_does_nothing_is_noticed():
    def nothing(env, state):
        env.unwrapped.metre = 0

    def metre(env, state):
        env.unwrapped.metre = state

    for options in ({}, {"encode": int, "num_states": 5}):
        wrong = EnvSampler(Line(), nothing, **options)
        with pytest.raises(ModelError, match=r"in random play from a reset, .* Does set_state set everything"):
            learn_minimal_budget(wrong, mu=0.6, delta=0.05, seed=0)
        right = learn_minimal_budget(EnvSampler(Line(), metre, **options), mu=0.6, delta=0.05, seed=0)
        assert right.minimal.of_state.tolist()[:5] == [0, 0, 0, 0, 0]
        assert right.minimal.of_choice.max() == 1


def test_damage_from_info():
    class Info(gymnasium.Wrapper):
        def step(self, action):
            *rest, info = self.env.step(action)
            return *rest, {**info, "cost": 1}

    def sampler(key):
        return EnvSampler(Info(gymnasium.make("FrozenLake-v1")), set_lake, key, max_damage=1)

    assert count_outcomes(sampler("cost"), 3, seed=3).damage.max() == 1
    with pytest.raises(ModelError, match=r"info must hold the damage under 'harm'; it has .*\. Pass damage="):
        count_outcomes(sampler("harm"), 1)


def test_damage_by_a_rule():
    cliff = EnvSampler(gymnasium.make("CliffWalking-v1"), damage="2 if reward<=-100", max_damage=2)
    assert count_outcomes(cliff, 1, seed=0).damage.max() == 2


@pytest.mark.parametrize("damage", ["cost", None, lambda *_: 0])  # None: the known damage of the lake
@pytest.mark.parametrize("initial", [None, 0])
def test_resets_with_damage_are_refused(initial, damage):
    class Hurts(gymnasium.Wrapper):
        def reset(self, **options):
            return self.env.reset(**options)[0], {"cost": 1}

        def step(self, action):
            *rest, info = self.env.step(action)
            return *rest, {**info, "cost": 0}

    env = Hurts(gymnasium.make("FrozenLake-v1"))
    with pytest.raises(ModelError, match=r"a reset must do no damage; info\['cost'\] is 1 after it"):
        asure.learn_minimal_budget(EnvSampler(env, set_lake, damage, initial=initial), mu=0.3, delta=0.1)


def test_environments_that_cannot_be_sampled():
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(ModelError, match=r"observation_space must be discrete, from 0; .* Give num_states and encode"):
        EnvSampler(env, set_lake, "cost")
    for bad, shown in ((7, "7"), (1.5, "1.5"), (None, "None"), ("one", "'one'"), (float("nan"), "nan"), ([1, 2], "")):
        with pytest.raises(ModelError, match=rf"encode must return states 0 … 3; got {shown}.* after reset\(seed=0\)"):
            EnvSampler(env, lambda env, s: None, lambda *_: 0, num_states=4, encode=lambda o, bad=bad: bad)
    with pytest.raises(ModelError, match="set_state must return the observation that the environment shows"):
        count_outcomes(EnvSampler(env, lambda env, s: None, lambda *_: 0, num_states=4, encode=lambda o: 1), 1)
    with pytest.raises(ModelError, match="set_state must put the environment into state 0; encode says"):
        count_outcomes(EnvSampler(env, lambda env, s: 9, lambda *_: 0, num_states=4, encode=lambda o: 1), 1)
    with pytest.raises(ModelError, match=r"cannot be set .*asure\.explore\(env\).*OnlineShield\(env.*EnvSampler\("):
        asure.learn_minimal_budget(gymnasium.make("Blackjack-v1"), mu=0.05, delta=0.1)
    with pytest.raises(ModelError, match="set_state must be a function"):
        EnvSampler(env, 3, "cost")
    with pytest.raises(ModelError, match="damage must be a function"):
        EnvSampler(env, set_lake, 3)


def test_an_environment_that_fails_names_the_place():
    env = gymnasium.make("FrozenLake-v1")
    stuck = gymnasium.wrappers.TransformAction(env, lambda action: 1 // 0, env.action_space)
    for broken, what in (
        (EnvSampler(stuck, set_lake, lambda *_: 0), "the environment failed at state 0, action 0"),
        (EnvSampler(env, lambda env, s: 1 / 0, lambda *_: 0), r"set_state failed for state 0 \(with budget=, .*\)"),
        (EnvSampler(env, set_lake, lambda *_: 1 / 0), "damage failed for 0, 0, .*"),
    ):
        with pytest.raises(ModelError, match=f"^{what}: ZeroDivisionError"):
            count_outcomes(broken, 1)
    for damage, shown in ((None, r"None .*\. Is a return missing\?$"), ("1", "'1'"), (0.5, "0.5"), (256, "256")):
        with pytest.raises(ModelError, match=f"^damage must be an integer 0 … 255; got {shown}") as caught:
            count_outcomes(EnvSampler(env, set_lake, lambda *_, d=damage: d), 1)
        assert "after state 0, action 0" in str(caught.value)
    with pytest.raises(ModelError, match=r"^encode failed for the observation 0: ZeroDivisionError"):
        EnvSampler(env, set_lake, lambda *_: 0, encode=lambda o: 1 / 0)


def test_states_in_which_no_episode_goes_on_are_sampled_only_without_a_budget():
    class Walk(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(1)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = 0
            return 0, {}

        def step(self, action):
            self.at += 1
            return self.at, 0.0, self.at == 2, False, {"cost": 0}

    walk = EnvSampler(Walk(), lambda env, state: setattr(env, "at", state))
    message = r"got 3 after state 2, action 0 \(with budget=, .* samples only states in which an episode may go on\)"
    with pytest.raises(ModelError, match=message):
        asure.learn_minimal_budget(walk, mu=0.5, delta=0.1)
    assert asure.learn_minimal_budget(walk, mu=0.5, delta=0.1, budget=0).minimal.smallest_budget() == 0


@pytest.mark.parametrize("terminal", [[0.5], "ab", [None]])
def test_terminal_states_are_whole_numbers(terminal):
    with pytest.raises(ArgumentError, match="terminal must be whole numbers"):
        FunctionSampler(lambda s, a, rng: (0, 0.0, 0), 2, 2, terminal=terminal)
