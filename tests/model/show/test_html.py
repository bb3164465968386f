"""HTML for notebooks: every result has a card, hostile names stay text, and large content is shortened."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import almostsure as asure
from almostsure.model.show.html import MOST_CELLS, SHADES, card, clean, table
from almostsure.testing import mdps

TAGS = {"div", "table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "text", "title"}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</svg></div>",
    "&lt;b&gt; &amp;",
    "a\x00b\u202e",
]


class Reader(HTMLParser):
    """The elements and the text of a page; fails on unbalanced tags."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def shown(value) -> Reader:
    reader = Reader(value._repr_html_())
    assert reader.tags <= TAGS
    assert not any(name.startswith("on") or name in {"src", "href"} for name in reader.attributes)
    return reader


def everything(mdp, budget=3):
    """A model, and all kinds of results for it."""
    minimal = asure.minimal_budget(mdp)
    shield = asure.Shield(minimal)
    values = [mdp, minimal, shield]
    if minimal.smallest_budget() <= budget:
        values.append(shield.random_policy(budget))
    return values


@pytest.mark.parametrize("name", asure.model.example_names())
def test_every_value_has_a_card(name):
    mdp = asure.example(name)
    budget = max(asure.minimal_budget(mdp).smallest_budget(), 2)
    solution = asure.solve_policy(mdp, asure.AlmostSure(budget))
    for value in (*everything(mdp, budget), solution, solution.policy):
        reader = shown(value)
        assert reader.text[0] == type(value).__name__
        small = mdp.layout is not None and mdp.layout.rows * mdp.layout.columns <= MOST_CELLS
        assert ("svg" in reader.tags) == small


def test_a_budget_is_drawn_with_its_numbers():
    mdp = asure.from_map(["S1X", ".#G"])
    minimal = asure.minimal_budget(mdp)
    page, reader = minimal._repr_html_(), shown(minimal)
    assert page.count("<rect") == 6
    cells = reader.text[reader.text.index("how many") :]
    assert cells.count("∞") >= 1
    assert any(shade in page for shade in SHADES)
    assert f"{mdp.state_name(0)} needs 0" in reader.text


def test_the_card_of_a_solution_has_its_printed_text():
    solution = asure.solve_policy("hazard-map", asure.AlmostSure(3))
    text = shown(solution).text
    assert "31.53587464" in text
    assert "never more than 3 damage" in text
    assert "→" in text


def test_a_randomised_policy_and_a_solution_without_a_curve():
    expected = asure.solve_policy("paper", asure.Expected(1))
    assert "left 0.5, right 0.5" in shown(expected.policy).text
    assert "budget" not in shown(expected).text, "a curve that is only computed when asked for is not shown"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name):
    mdp = asure.from_transitions(
        [0, 0],
        [0, 1],
        [0, 1],
        [1, 1],
        [1, 0],
        [1, 0],
        terminal=[1],
        state_names=[name, "end"],
        action_names=[name, "b"],
    )
    solution = asure.solve_policy(mdp, asure.AlmostSure(1))
    for value in (*everything(mdp), solution, solution.policy):
        reader = shown(value)
        assert "<script" not in value._repr_html_()
        assert "<img" not in value._repr_html_()
        if not isinstance(value, (asure.MinimalBudget, asure.Shield)) and "\x00" not in name:
            assert any(name in text for text in reader.text) or type(value).__name__ == "Solution"


def test_hostile_characters_of_a_map_stay_text():
    mdp = asure.from_map(["S<G", "&\"'"], legend={c: asure.model.Cell() for c in "<&\"'"})
    for value in everything(mdp):
        shown(value)
    assert "<" in shown(mdp).text
    assert "&" in shown(mdp).text


def test_large_models_are_shortened():
    count = 30_000
    states = np.arange(count)
    mdp = asure.from_transitions(
        states, np.zeros(count), states + 1, np.ones(count), np.zeros(count), np.ones(count), terminal=[count]
    )
    policy = asure.Policy.from_table(mdp, np.zeros(count + 1, int))
    assert "… and 29,977 more states" in shown(policy).text
    for value in (*everything(mdp), policy):
        assert len(value._repr_html_()) < 20_000
    text = shown(asure.minimal_budget(mdp)).text
    assert "… 30,001 levels in all" in text
    names = [f"{'long' * 50}{s}" for s in range(3)]
    named = asure.from_transitions([0, 1], [0, 0], [1, 2], [1, 1], [0, 0], [0, 0], terminal=[2], state_names=names)
    assert all(len(text) <= 200 for value in everything(named) for text in shown(value).text)


def test_several_states_in_a_cell_are_not_drawn():
    mdp = asure.from_map(["S.G"])
    layout = asure.model.layout.Layout(rows=1, columns=3, cell=np.zeros(3, np.int32), text=("S.G",))
    twin = asure.MDP(mdp.arrays, initial=(np.array([0]), np.ones(1)), layout=layout)
    assert "svg" not in shown(twin).tags


@settings(max_examples=40)
@given(mdps(max_states=4), st.integers(0, 3))
def test_any_model_can_be_shown(mdp, budget):
    for value in everything(mdp, budget):
        shown(value)


@given(st.text())
def test_pieces_hold_any_text(text):
    reader = Reader(card(text, [(text, text)], table([text], [[text]], text)))
    assert reader.tags <= TAGS
    assert len(clean(text, 10).replace("&", "")) <= 60
