"""Arguments: errors about wrong names suggest the right ones."""

import inspect
import re

import gymnasium
import pytest

import almostsure as asure
from almostsure.abstract import Grid
from almostsure.errors import ArgumentError, WrongWord
from almostsure.gym import DamageTracker, ShieldedEnv, ShieldedVectorEnv, VectorDamageTracker, to_gymnasium
from almostsure.learn import EnvSampler, FunctionSampler, count_outcomes, learners
from almostsure.model import Cell

HOMES = ("abstract", "budget", "gym", "learn", "model", "paper", "plan", "policy", "report", "shield", "testing")
MADE_BY_USERS = {Cell, EnvSampler, FunctionSampler, Grid, learners.ShieldedQ, asure.AlmostSure, asure.RiskShield}
MODEL = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: asure.simulate(MODEL, None, 1, total=2), "simulate has no argument total: pass budget="),
        (lambda: asure.simulate(MODEL, None, 1, horizon=9), "simulate has no argument horizon: pass max_steps="),
        (lambda: asure.evaluate(MODEL, None, gamma=0.9), "evaluate has no argument gamma: pass discount="),
        (
            lambda: asure.solve_policy(MODEL, asure.AlmostSure(1), gamma=0.9),
            "solve_policy has no argument gamma: pass discount=",
        ),
        (lambda: asure.solve_policy(MODEL, budget=3), r": pass constraint=AlmostSure\(budget\)"),
        (lambda: asure.AlmostSure(delta=1), "AlmostSure has no argument delta: pass budget="),
        (lambda: asure.Chance(1, delta=0.1), "Chance has no argument delta: pass budget= \\(Δ\\) or risk=$"),
        (lambda: asure.minimal_budget(MODEL, budget=3), "minimal_budget has no argument budget: pass cap="),
        (
            lambda: asure.Shield(asure.minimal_budget(MODEL)).allowed(0, budget=1),
            "allowed has no argument budget: pass remaining=",
        ),
        (lambda: asure.simulate(MODEL, None, n=9), "simulate has no argument n: pass episodes="),
        (lambda: asure.simulate(MODEL, None, num_episodes=9), "has no argument num_episodes: pass episodes="),
        (
            lambda: asure.from_function(lambda s, a: [], start=0, actions=[0]),
            "from_function has no argument start: pass initial=",
        ),
        (lambda: asure.AlmostSure(cost_limit=1), "AlmostSure has no argument cost_limit: pass budget="),
        (
            lambda: asure.solve_policy(MODEL, cost_limit=1),
            r"pass constraint=AlmostSure\(budget\), or Expected\(budget\)",
        ),
        (lambda: asure.Chance(1, epsilon=0.1), "Chance has no argument epsilon: pass risk="),
        (
            lambda: asure.compare(MODEL, 1, total_timesteps=9),
            "compare has no argument total_timesteps: pass steps=",
        ),
        (
            lambda: asure.learn_minimal_budget(MODEL, mu=0.1, delta=0.1, damage=None),
            r"has no argument damage: pass sampler=EnvSampler\(env, set_state, damage\)",
        ),
        (lambda: asure.explore("FrozenLake-v1", cost=None), "explore has no argument cost: pass damage="),
        (lambda: asure.Expected(budget=1), "Expected has no argument budget: pass limit="),
        (lambda: asure.AlmostSure(limit=1), "AlmostSure has no argument limit: pass budget="),
        (lambda: asure.compare(MODEL, 1, gamma=0.9), r"pass learners=\[ShieldedQ\(discount=…\)\]"),
        (lambda: asure.compare(MODEL, 1, discount=0.9), r"pass learners=\[ShieldedQ\(discount=…\)\]"),
        (lambda: asure.compare(MODEL, 1, episodes=9), "compare has no argument episodes: pass steps="),
        (lambda: learners.ShieldedQ(epsilon=0.1), "ShieldedQ has no argument epsilon: pass explore="),
        (lambda: asure.compare(MODEL, 1, n_episodes=9), "compare has no argument n_episodes: pass steps="),
        (lambda: asure.learn_minimal_budget(MODEL, cost=1), r"no argument cost: pass sampler=EnvSampler\(env, "),
        (lambda: asure.learn_minimal_budget(MODEL, n_samples=9), "no argument n_samples: pass mu= and delta=, which"),
        (lambda: count_outcomes(MODEL, n_samples=9), "count_outcomes has no argument n_samples: pass samples="),
        (
            lambda: asure.learn_minimal_budget(MODEL, mu=0.1, epsilon=0.1),
            "no argument epsilon: pass delta=, the probability of being wrong",
        ),
        (
            lambda: asure.learn_minimal_budget(MODEL, mu=0.1, confidence=0.9),
            "no argument confidence: pass delta=, which is 1 − confidence",
        ),
        (lambda: asure.OnlineShield(MODEL, mu=0.1), r"pass needed=samples_needed\(…, mu=, delta=\)"),
        (
            lambda: asure.from_function(lambda s, a: [], initial=0, actions=[0], terminal=[1]),
            "no argument terminal: pass actions=; a state without any is terminal",
        ),
        (lambda: asure.AlmostSure(total=1), "AlmostSure has no argument total: pass budget="),
        (lambda: asure.Chance(total=1, risk=0.1), "Chance has no argument total: pass budget="),
        (lambda: asure.compare(MODEL, total=1), "compare has no argument total: pass budget="),
        (
            lambda: asure.learn_minimal_budget(MODEL, mu=0.1, delta=0.1, total=1),
            "learn_minimal_budget has no argument total: pass budget=",
        ),
        (
            lambda: ShieldedEnv(gymnasium.make("FrozenLake-v1"), None, total=1),
            "ShieldedEnv has no argument total: pass budget=",
        ),
        (
            lambda: ShieldedEnv(gymnasium.make("FrozenLake-v1"), None, 1, gamma=0.9),
            r"ShieldedEnv has no argument gamma: pass it to the learner, as discount= \(gamma= in Stable-Baselines3\)",
        ),
        (
            lambda: ShieldedVectorEnv(gymnasium.make_vec("FrozenLake-v1"), None, 1, discount=0.9),
            "ShieldedVectorEnv has no argument discount: pass it to the learner, as discount=",
        ),
    ],
)
def test_names_of_other_libraries_are_answered_with_ours(call, message):
    with pytest.raises(WrongWord, match=message) as caught:
        call()
    assert isinstance(caught.value, ArgumentError)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("call", "got"),
    [
        (lambda: asure.solve_policy(asure.AlmostSure(1), MODEL), "AlmostSure"),
        (lambda: asure.evaluate(asure.solve_policy(MODEL, asure.AlmostSure(1)).policy, MODEL), "Policy"),
        (lambda: asure.check_minimal_budget(asure.minimal_budget(MODEL), MODEL), "MinimalBudget"),
        (lambda: asure.product(asure.model.Steps(3), MODEL), "Steps"),
        (lambda: asure.plan.RiskShield(asure.minimal_budget(MODEL), 1, 0.1), "MinimalBudget"),
        (lambda: asure.minimal_budget(None), "NoneType"),
        (
            lambda: asure.minimal_budget(asure.learn_minimal_budget(MODEL, mu=0.1, delta=0.1)),
            "LearnedBudget. Its model is its attribute mdp",
        ),
    ],
)
def test_anything_but_a_model_is_refused(call, got):
    with pytest.raises(ArgumentError, match=f"a model must be an MDP, an example's name or a path; got {got}"):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ShieldedEnv(None, None, bugdet=2), "ShieldedEnv has no argument bugdet: pass budget="),
        (lambda: asure.RiskShield(MODEL, 1, rsik=0.1), "RiskShield has no argument rsik: pass risk="),
        (lambda: asure.learn_from_logs([], mu=0.1, dleta=0.1), "learn_from_logs has no argument dleta: pass delta="),
        (lambda: asure.minimal_budget(MODEL, horzion=3), "minimal_budget has no argument horzion: pass horizon="),
        (lambda: EnvSampler(None, num_state=3), "EnvSampler has no argument num_state: pass num_states="),
        (lambda: DamageTracker(None, bugdet=3), "DamageTracker has no argument bugdet: pass budget="),
        (lambda: VectorDamageTracker(None, cost=3), "VectorDamageTracker has no argument cost: pass damage="),
    ],
)
def test_misspelled_names_are_answered_with_the_right_ones(call, message):
    with pytest.raises(WrongWord, match=message):
        call()


def with_options():
    """All exported functions, and the classes that users construct with keyword-only arguments."""
    homes = [asure, *(getattr(asure, name) for name in HOMES), learners]
    found = (getattr(home, name) for home in homes for name in home.__all__)
    functions = {function for function in found if inspect.isfunction(function)}
    return sorted((functions | MADE_BY_USERS), key=lambda function: function.__name__)


@pytest.mark.parametrize("function", with_options())
def test_every_function_names_its_misspelled_arguments(function):
    parameters = inspect.signature(function).parameters.values()
    named = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return  # passed on to another library
    for name in named:
        with pytest.raises(WrongWord, match=f"{function.__name__} has no argument {name}x: pass "):
            function(**{f"{name}x": None})


def test_self_is_not_an_argument_to_pass():
    with pytest.raises(TypeError, match="unexpected keyword argument 'selfs'"):
        EnvSampler(None, selfs=True)


@pytest.mark.parametrize("function", [asure.RiskShield, asure.learn_from_logs, EnvSampler, DamageTracker])
def test_signatures_stay_as_they_are(function):
    assert "kwargs" not in inspect.signature(function).parameters


def test_an_unknown_name_without_a_suggestion_is_a_type_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        asure.simulate(MODEL, None, 1, colour="red")
    assert to_gymnasium(MODEL).reset(seed=0)[0] == 0


@pytest.mark.parametrize(
    "home",
    ["gym.ShieldedEnv", "report.write_report", "abstract.UpperBudget", "gym.deep.ShieldedPPO", "errors.NoSafeAction"],
)
def test_a_name_of_another_package_is_found(home):
    name = home.rpartition(".")[2]
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; it is almostsure\.{re.escape(home)}$"):
        getattr(asure, name)


def test_a_name_of_no_package_is_unknown():
    with pytest.raises(AttributeError, match=r"no attribute 'Nothing'$"):
        asure.Nothing  # noqa: B018
