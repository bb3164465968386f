"""``simulate``: compiled and plain episodes are equal to the bit, with any number of threads."""

import contextlib
import pickle
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from almostsure import from_transitions
from almostsure.crew import LocalCrew
from almostsure.errors import ArgumentError, Interrupted, ModelMismatch, NoSafeAction
from almostsure.policy.policy import Policy
from almostsure.policy.rows import Rest
from almostsure.policy.simulation.plain import play_plain
from almostsure.policy.simulation.simulate import play_compiled, simulate
from almostsure.policy.simulation.streams import open_streams
from almostsure.testing import mdps

module = import_module("almostsure.policy.simulation.simulate")  # the function has its name


def columns(episodes):
    return episodes.returns, episodes.damages, episodes.lengths, episodes.truncated


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@st.composite
def played(draw):
    """A model and a policy of a given kind."""
    mdp = draw(mdps(max_states=5))
    budget = draw(st.one_of(st.none(), st.integers(0, 3)))
    random = draw(st.randoms(use_true_random=False))
    randomised = draw(st.booleans())

    def decide(state, remaining=None):
        actions = mdp.actions(state).tolist()
        return {a: 1 / len(actions) for a in actions} if randomised else random.choice(actions)

    policy = Policy.from_function(mdp, decide, budget=budget)
    return mdp, policy if budget is None else policy.with_overspent(lambda s: decide(s))


@given(played(), st.integers(0, 2**64 - 1), st.sampled_from([1.0, 0.9]))
def test_compiled_and_plain_are_equal_to_the_bit(pair, seed, discount):
    mdp, policy = pair
    episodes = simulate(mdp, policy, 20, seed=seed, max_steps=30, discount=discount)
    tables, rules = episodes._tables, episodes._rules
    plain, compiled = play_plain(tables, rules, seed, 20), play_compiled(tables, rules, seed, 20, LocalCrew(2))
    assert same(plain, compiled)
    assert same(compiled[:3], columns(episodes)[:3])


def test_many_outcomes_are_found_by_bisection():
    count = 300
    weights = np.arange(1.0, count + 1)
    mdp = from_transitions(
        [0] * count, [0] * count, [1] * count, weights / weights.sum(), np.arange(count), [0] * count, terminal=[1]
    )
    episodes = simulate(mdp, [0, 0], 5000, seed=3)
    assert same(play_compiled(episodes._tables, episodes._rules, 3, 5000)[:3], columns(episodes)[:3])
    mean = float(weights @ np.arange(count) / weights.sum())
    assert abs(episodes.returns.mean() - mean) < 6 * episodes.returns.std() / np.sqrt(5000)


def test_the_number_of_threads_does_not_matter(paper):
    policy = Policy.from_table(paper(0.6), [[1, 0]] + [[0, 0]] * 5)
    episodes = simulate(paper(0.6), policy, 1000, seed=7)
    for crew in (None, LocalCrew(1), LocalCrew(2), LocalCrew(5)):
        assert same(play_compiled(episodes._tables, episodes._rules, 7, 1000, crew)[:3], columns(episodes)[:3])


def test_the_first_episodes_of_a_larger_job_are_those_of_a_smaller_one(paper, monkeypatch):
    policy = [[1, 0]] + [[0, 0]] * 5
    small = simulate(paper(0.6), policy, 100, seed=7)
    monkeypatch.setattr(module, "PLAIN_STEPS", 500)  # so that the larger one is compiled
    large = simulate(paper(0.6), policy, 1000, seed=7)
    assert same([x[:100] for x in columns(large)], columns(small))


def test_numpy_gives_up_after_a_number_of_steps(paper):
    """Each step of ten episodes counts as ten, plus an overhead of 500."""
    episodes = simulate(paper(), [0, 0], 10, seed=0, max_steps=2)
    tables, rules = episodes._tables, episodes._rules
    assert play_plain(tables, rules, 0, 10, limit=1019) is None
    for limit in (1020, None):
        assert same(play_plain(tables, rules, 0, 10, limit=limit)[:3], columns(episodes)[:3])


def test_seeds(paper):
    policy = {0: {"left": 0.5, "right": 0.5}, 1: 0}
    one, again, other = (simulate(paper(), policy, 50, seed=s) for s in (1, 1, 2))
    assert same(columns(one), columns(again))
    assert not np.array_equal(one.lengths, other.lengths)
    fresh = simulate(paper(), policy, 50)
    assert same(columns(simulate(paper(), policy, 50, seed=fresh.seed)), columns(fresh))


def test_streams_are_uniform_and_apart():
    start, step = open_streams(11, np.arange(20_000))
    assert np.unique(start).size == start.size
    assert (step % 2 == 1).all()
    from almostsure.policy.simulation.streams import mix, uniform

    first, second = uniform(mix(start + step)), uniform(mix(start + step + step))
    for draws in (first, second):
        assert abs(draws.mean() - 0.5) < 5 / np.sqrt(12 * draws.size)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(first.size)
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 5 / np.sqrt(first.size)


@given(played(), st.integers(0, 1000))
@settings(max_examples=50)
def test_a_trajectory_is_its_episode(pair, seed):
    mdp, policy = pair
    episodes = simulate(mdp, policy, 4, seed=seed, max_steps=25)
    for episode in range(4):
        path = episodes.trajectory(episode)
        assert path.actions.size == episodes.lengths[episode] == path.states.size - 1
        assert path.rewards.sum() == pytest.approx(episodes.returns[episode])
        assert path.damages.sum() == episodes.damages[episode]
        for t in range(path.actions.size):
            outcomes = mdp.outcomes(int(path.states[t]), int(path.actions[t]))
            step = (path.states[t + 1], path.rewards[t], path.damages[t])
            assert step in {(o.next_state, o.reward, o.damage) for o in outcomes}


def test_frequencies_of_an_initial_distribution():
    mdp = from_transitions([0, 1], [0, 0], [2, 2], [1, 1], [1, 2], [0, 0], terminal=[2], initial={0: 0.2, 1: 0.8})
    episodes = simulate(mdp, [0, 0, 0], 10_000, seed=5)
    assert abs((episodes.returns == 1).mean() - 0.2) < 0.025


def test_a_start_at_the_end():
    mdp = from_transitions([0], [0], [1], [1], [1], [0], terminal=[1], initial=1)
    episodes = simulate(mdp, [0, 0], 3, seed=0)
    assert episodes.lengths.tolist() == [0, 0, 0]
    assert not episodes.truncated.any()


def test_an_assured_policy_that_overspends_raises(paper):
    with pytest.raises(
        NoSafeAction, match="overspent its budget: 3 damage, with a budget of 2, in episode 0 of seed 4"
    ) as e:
        simulate(paper(), [[0, 0], [0, 0], [0, 0]], 10, seed=4)
    assert (e.value.state, e.value.remaining) == (0, -1)
    assert "10 of 10 episodes" in str(e.value)


def test_compiled_play_raises_as_well(paper, monkeypatch):
    monkeypatch.setattr(module, "PLAIN_STEPS", 5)
    with pytest.raises(NoSafeAction, match="overspent its budget: 2 damage, with a budget of 1"):
        simulate(paper(), [[0, 0], [0, 0]], 10, seed=4)


def test_an_undefined_policy_raises(paper):
    with pytest.raises(NoSafeAction, match=r"reached a pair at which it is undefined .* at state 0 with 1 left"):
        simulate(paper(), [[1, 0], [-1, 0], [0, 0]], 10, seed=4)


def test_stationary_policies_may_overspend_and_are_counted(paper):
    episodes = simulate(paper(), {0: {"left": 0.8, "right": 0.2}, 1: 0}, 20_000, budget=2, seed=1)
    assert abs(episodes.overspent.mean() - 0.8**3) < 0.02
    assert "overspent" in str(episodes)
    with pytest.raises(ArgumentError, match="no budget to overspend"):
        _ = simulate(paper(), [1, 0], 5, seed=1).overspent


def test_long_episodes_are_cut_and_marked(paper):
    episodes = simulate(paper(), [0, 0], 5, seed=1, max_steps=17)
    assert episodes.lengths.tolist() == [17] * 5
    assert episodes.truncated.all()


def test_episodes_that_come_to_rest_are_truncated(coin):
    rest = Rest(probability=np.array([[0.5, 0.0]]), choice=np.array([0, -1]))
    policy = Policy(coin, choice=np.array([[1, 2]], np.int32), rest=rest)
    episodes = simulate(coin, policy, 4000, seed=1)
    assert abs(episodes.truncated.mean() - 0.5) < 0.05
    assert np.array_equal(episodes.truncated, episodes.returns == 0)
    compiled = play_compiled(episodes._tables, episodes._rules, 1, 4000)
    assert same(compiled[:3], columns(episodes)[:3])


def test_an_impossible_action_is_never_drawn():
    """Probabilities that sum to a little less than 1 must not give the remainder to the last action."""
    mdp = from_transitions([0, 0], [0, 1], [1, 1], [1, 1], [0, -1e9], [0, 0], terminal=[1])
    policy = Policy.from_table(mdp, np.array([[1 - 1e-10, 0.0], [1, 0]]))
    tables = simulate(mdp, policy, 1, seed=0)._tables
    assert tables.shares[0, 0] > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 0}, "episodes must be at least 1"),
        ({"episodes": 2.5}, "episodes must be a whole number"),
        ({"max_steps": 0}, "max_steps must be at least 1"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 2**64}, "seed must be a whole number"),
        ({"budget": -1}, "budget must be a whole number"),
        ({"discount": 0}, r"discount must lie in \(0, 1\]"),
    ],
)
def test_arguments_out_of_range(paper, options, message):
    with pytest.raises(ArgumentError, match=message):
        simulate(paper(), [1, 0], **{"episodes": 3, **options})


def test_another_models_policy(paper):
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        simulate(paper(0.5), Policy.from_table(paper(0.6), [1, 0]), 3)


def test_an_unknown_episode(paper):
    with pytest.raises(ArgumentError, match="episode must lie in 0 … 2; got 3"):
        simulate(paper(), [1, 0], 3, seed=0).trajectory(3)


def test_a_single_action_although_the_terminal_state_has_another(paper):
    assert simulate(paper(), lambda state: "right", 5, seed=0).lengths.tolist() == [1] * 5
    uniform = np.full((2, 2), 0.5)
    assert simulate(paper(), uniform, 5, seed=0).truncated.sum() == 0


def test_a_model_by_name():
    assert simulate("paper", ["right", "right"], 2, seed=0).lengths.tolist() == [1, 1]


def test_truncated_episodes_are_noted(paper, coin):
    waiting = simulate(coin, ["wait", "wait"], 3, seed=0, max_steps=7)
    assert repr(waiting) == "<Episodes: 3, return 0 on average, 3 of them truncated, seed 0>"
    assert "truncated 3 of 3, 3 of them after max_steps = 7: the policy may never end" in str(waiting)
    ended = simulate(paper(), [1, 0], 3, seed=0)
    assert repr(ended) == "<Episodes: 3, return 0 on average, seed 0>"
    assert "truncated" not in str(ended)
    rest = Rest(probability=np.array([[1.0, 0.0]]), choice=np.array([0, 2]))
    resting = simulate(coin, Policy(coin, choice=np.array([[1, 2]]), rest=rest), 3, seed=0)
    assert "truncated 3 of 3, come to rest" in str(resting)


def test_a_trajectory_shows_names(paper):
    path = simulate(paper(), {0: "left"}, 1, seed=0, max_steps=50).trajectory(0)
    assert repr(path) == "<Trajectory: 50 steps from 0 to 0, return 50, damage 50>"
    assert "0  left  0, reward 1, damage 1" in str(path)
    assert str(path).endswith("… and 10 more steps")
    assert str(simulate(paper(), [1, 0], 1, seed=0).trajectory(0)).splitlines()[1:] == ["0  right  1"]


def test_the_text_of_episodes(paper):
    episodes = simulate(paper(), [[1, 0], [0, 0], [0, 0]], 1200, seed=3)
    assert str(episodes) == (
        "1,200 episodes (seed 3)\n"
        "return   mean 2, from 2 to 2\n"
        "damage   mean 2, from 2 to 2\n"
        "length   mean 3, from 3 to 3\n"
        "overspent 0 of 1,200 (more than 2)"
    )
    assert episodes.trajectory(0).history() == (0, 0, 1.0, 1, 0, 0, 1.0, 1, 0, 1, 0.0, 0, 1)
    assert episodes.trajectory(1199).history(1) == (0, 0, 1.0, 1, 0)
    for wrong in (-1, 1200):
        with pytest.raises(ArgumentError, match=f"^episode must lie in 0 … 1199; got {wrong}$"):
            episodes.trajectory(wrong)
    spending = simulate(paper(), [0, 0], 5, budget=2, seed=1, max_steps=3)
    assert "overspent 5 of 5 (more than 2)\ntruncated 5 of 5, 5 of them after max_steps = 3: the" in str(spending)
    for most, overspent in ((2, False), (3, True)):
        assert simulate(paper(), [0, 0], 1, budget=2, seed=1, max_steps=most).overspent.tolist() == [overspent]
    timed = Policy(paper(), choice=np.array([[0, 2]]), block=[0] * 4)
    assert str(simulate(paper(), timed, 2, seed=0)).endswith(
        "truncated 2 of 2, 2 of them after the 4 steps of the horizon"
    )


@pytest.mark.parametrize(
    ("steps", "tail"), [(40, []), (41, ["… and 1 more steps"]), (1041, ["… and 1,001 more steps"])]
)
def test_forty_steps_are_printed(paper, steps, tail):
    path = simulate(paper(), [0, 0], 1, seed=0, max_steps=steps).trajectory(0)
    assert str(path).splitlines()[1:] == ["0  left  0, reward 1, damage 1"] * 40 + tail


def test_the_text_of_violations(paper):
    with pytest.raises(
        NoSafeAction, match=r"of seed 4, after 1 step, at state 0 with 1 left \(10 of 10 episodes\)$"
    ) as e:
        simulate(paper(), [[1, 0], [-1, 0], [0, 0]], 10, seed=4)
    assert (e.value.state, e.value.remaining) == (0, 1)
    with pytest.raises(
        NoSafeAction, match=r"^the policy reached a pair at which it is undefined in episode 0 of seed 4, after 0 s"
    ):
        simulate(paper(), [-1, 0], 10, seed=4)
    with pytest.raises(
        NoSafeAction, match=r"with 0 left \(2 of 2 .*\)\. It was made for a budget of 1: leave out the budget"
    ):
        simulate(paper(), [[-1, 0], [0, 0]], 2, seed=4, budget=0)


def test_the_widest_seeds_are_taken(paper):
    for seed in (0, 2**64 - 1):
        assert simulate(paper(), [1, 0], 1, seed=seed).seed == seed
    for wrong in (-1, 2**64, True, 1.0):
        with pytest.raises(ArgumentError, match=r"^seed must be a whole number, 0 … 2\*\*64 − 1; got"):
            simulate(paper(), [1, 0], 1, seed=wrong)


def test_long_simulations_show_progress_and_may_be_interrupted(paper, monkeypatch):
    seen = []
    monkeypatch.setattr(module.Bar, "update", lambda self, done, note="": seen.append((done, self.total)))
    monkeypatch.setattr(module, "PLAIN_STEPS", 0)
    simulate(paper(), [0, 0], 100, seed=0, max_steps=10)
    assert seen[-1] == (100, 100)
    assert len(seen) > 10


@pytest.mark.parametrize("crew", [None, "pairs"])
@pytest.mark.parametrize("point", ["at work", "compiling", "the end of the threads", "NumPy"])
def test_episodes_before_ctrl_c_are_kept(point, crew, paper, monkeypatch):
    """Ctrl-C is raised at a named point; the first episodes of the whole run are kept."""
    mdp, whole = paper(), simulate(paper(), [0, 0], 100, seed=0, max_steps=10)
    monkeypatch.setattr(module, "PLAIN_STEPS", 10**6 if point == "NumPy" else 0)

    def stop(self, done, note=""):
        if done > 50:
            raise KeyboardInterrupt

    def stop_at_once(*_, **__):
        raise KeyboardInterrupt

    home, name, action = {
        "at work": (module.Bar, "update", stop),
        "compiling": (module, "warm_up", stop_at_once),
        "the end of the threads": (ThreadPoolExecutor, "shutdown", stop_at_once),
        "NumPy": (module, "play_plain", stop_at_once),
    }[point]
    if crew and point in ("NumPy", "the end of the threads"):
        return  # a crew has neither
    monkeypatch.setattr(home, name, action)
    with pytest.raises(Interrupted, match="simulation of 100 episodes was interrupted") as caught:
        simulate(mdp, [0, 0], 100, seed=0, max_steps=10, crew=Pairs() if crew else None)
    kept = caught.value.kept
    if point in ("compiling", "NumPy"):
        assert kept is None
        assert str(caught.value) == "the simulation of 100 episodes was interrupted; none of them is kept."
    else:
        assert 50 <= len(kept) <= 100
        assert str(caught.value).endswith(f"interrupted; the first {len(kept)} are the error's .kept.")
        assert np.array_equal(kept.lengths, whole.lengths[: len(kept)])
        assert np.array_equal(kept.damages, whole.damages[: len(kept)])


class Pairs:
    """A crew that pickles its task, and processes one item after the other."""

    def open(self, task, *, threads=False):
        task = pickle.loads(pickle.dumps(task))  # as a cluster does
        return contextlib.nullcontext(lambda items: (pickle.loads(pickle.dumps(task(item))) for item in items))


def test_a_crew_plays_the_same_episodes(paper):
    mdp = paper()
    alone = simulate(mdp, {0: {0: 0.7, 1: 0.3}}, 1000, seed=7)
    together = simulate(mdp, {0: {0: 0.7, 1: 0.3}}, 1000, seed=7, crew=Pairs())
    for name in ("returns", "damages", "lengths", "truncated"):
        assert np.array_equal(getattr(alone, name), getattr(together, name))
