"""Users' functions are called with states of the box, also where a periodic coordinate has left it."""

import numpy as np
import pytest

import almostsure as asure
from almostsure import Grid, abstract
from almostsure.abstract.enclosure.evaluate import distance
from almostsure.abstract.enclosure.inclusion import reachable
from almostsure.abstract.enclosure.interval import Interval
from almostsure.errors import ArgumentError, ModelError

WHEEL = Grid([-np.pi], [np.pi], [60], periodic=[0], names=["angle"])
TURN = 2 * np.pi


def wheel(actions=(0.0, 0.2), **more):
    return abstract(lambda s, a: (s[0] + a,), WHEEL, actions, **more)


@pytest.mark.parametrize("word", ["unsafe", "forbidden"])
@pytest.mark.parametrize("turns", [0, 1, -2])
def test_danger_behind_the_seam_is_seen(word, turns):
    model = wheel([turns * TURN, turns * TURN + 0.2], **{word: lambda s: s[0] < -3})
    assert (1,) not in asure.minimal_budget(model).patterns((3.0,))
    assert model.damage([[3.2 + turns * TURN], [3.0]]).tolist()[1] == 0
    assert model.damage([[3.2 + turns * TURN]])[0] >= 1


def test_a_step_across_the_seam_has_not_arrived():
    upper = asure.minimal_budget(wheel([0.2], goal=lambda s: s[0] > 3))
    assert upper.of((2.99,)) > 1  # 3.19 is −3.09
    assert upper.of((2.9,)) == 1
    both = asure.minimal_budget(wheel([0.2], goal=lambda s: np.abs(s[0]) > 3))
    assert both.of((2.99,)) == 1
    assert both.abstraction.arrived([[3.2], [0.0]]).tolist() == [True, False]


def test_play_that_turns_over_the_seam_keeps_the_budget():
    def step(state, push):
        angle, speed = state
        speed = 0.8 * speed + 0.1 * np.sin(angle) + push
        return angle + speed, speed

    model = abstract(
        step,
        Grid((-np.pi, -1.0), (np.pi, 1.0), (80, 40), periodic=(0,)),
        [-0.1, 0.0, 0.1],
        unsafe=lambda s: s[0] < -2.5,
        pattern=2,
        initial=((-0.5, -0.1), (0.5, 0.1)),
    )
    upper = asure.minimal_budget(model)
    shield, rng, budget = asure.Shield(upper), np.random.default_rng(0), 2
    for _ in range(20):
        state, spent = (float(rng.uniform(-0.5, 0.5)), 0.0), 0
        run = shield.begin(state, budget)
        for _ in range(60):
            action = int(shield.allowed(*run)[-1])
            angle, speed = step(state, model.actions[action])
            state = (float((angle + np.pi) % TURN - np.pi), float(speed))
            hurt = int(state[0] < -2.5)
            spent += hurt
            run = shield.after(run, action, state, hurt)
        assert spent <= budget


def test_a_step_that_a_period_changes_is_refused():
    match = r"angle is periodic, so step must do the same at angle \+ 6.28319; with action 0.1 it leads to another"
    with pytest.raises(ModelError, match=match):
        abstract(lambda s, a: (0.9 * s[0] + a,), WHEEL, [0.1])
    abstract(lambda s, a: (0.9 * (s[0] - TURN * np.floor((s[0] + np.pi) / TURN)) + a,), WHEEL, [0.1])


def test_damages_may_be_summed():
    def zones(state):
        return np.where(state[0] > 0.5, 1, 0) + 2 * np.where(state[1] > 0.5, 1, 0)

    grid = Grid((-1, -1), (1, 1), (8, 8))
    model = abstract(lambda s, a: (a, a), grid, [0.1, 0.9], unsafe=zones, pattern=[(1, 0), (0, 0)])
    assert asure.minimal_budget(model).patterns((0.0, 0.0)) == {(1, 0): 3, (0, 0): 0}
    shield = asure.Shield(asure.minimal_budget(model))
    assert shield.after(shield.begin((0.0, 0.0), 4), 1, (0.9, 0.9))[1] == 1
    with pytest.raises(ModelError, match="damage must be 0 or more; unsafe gives -1"):
        asure.minimal_budget(abstract(lambda s, a: (a, a), grid, [0.1], unsafe=lambda s: np.where(s[0] > 0, -1, 0)))


@pytest.mark.parametrize("answer", [None, 1.0, "no", []])
def test_an_answer_that_is_not_true_or_false_is_refused(answer):
    grid = Grid([-1.0], [1.0], [4])
    for word in ("forbidden", "goal"):  # a return that was forgotten would forbid nothing
        with pytest.raises(ModelError, match=rf"{word} must return true or false, such as s\[0\] > 1; got"):
            asure.minimal_budget(abstract(lambda s, a: s, grid, [0], **{word: lambda s: answer}))
    with pytest.raises(ModelError, match=r"forbidden must return true or false, .*; got Interval"):
        asure.minimal_budget(abstract(lambda s, a: s, grid, [0], forbidden=lambda s: s[0]))
    if answer is None:
        with pytest.raises(ModelError, match=r"unsafe must return true or false, or the damage .*; got NoneType"):
            asure.minimal_budget(abstract(lambda s, a: s, grid, [0], unsafe=lambda s: answer))


def test_enclosures_and_arrays_that_do_not_fit_are_refused():
    grid = Grid([-1.0], [1.0], [4])
    with pytest.raises(ModelError, match="post must return low ≤ high; in x0 4 cells do not"):
        abstract(post=lambda low, high, a: (high, low), grid=grid, actions=[0])
    for words in (dict(step=lambda s, a: (np.zeros(3),)), dict(post=lambda low, high, a: ((np.zeros(3),), high))):
        with pytest.raises(ModelError, match=r"must return one value, or arrays that broadcast .*\[4\]; got .*\[3\]"):
            abstract(grid=grid, actions=[0], **words)
    for word in ("unsafe", "forbidden", "goal"):
        with pytest.raises(ModelError, match=rf"{word} must return one value, or arrays that broadcast"):
            asure.minimal_budget(abstract(lambda s, a: s, grid, [0], **{word: lambda s: np.zeros(3, bool)}))
    with pytest.raises(ArgumentError, match="actions must be a list of the values that step is given; got 3"):
        abstract(lambda s, a: s, grid, 3)


@pytest.mark.parametrize("ends", [(2.0, np.inf), (-np.inf, 2.0), (-np.inf, np.inf), (np.nan, 2.0), (2.0, np.nan)])
def test_an_interval_without_end_goes_round_and_round(ends):
    points = np.linspace(-3, 3, 50)
    assert (distance(WHEEL, 0, Interval(*np.array(ends)[:, None]), Interval(points, points)) == 0).all()


def test_where_a_step_overflows_it_may_lead_anywhere():
    model = abstract(lambda s, a: (np.exp(300 * s[1]), s[1]), Grid([-1, 0], [1, 3], [20, 60], periodic=[0]), [0.0])
    cell, ahead = model.grid.cell((0.0, 2.363)), np.arange(20) * 60 + 47
    assert reachable(model, np.full(20, cell), np.zeros(20, int), ahead).all()
