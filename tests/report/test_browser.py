"""The report in a real browser: slider, click, player, keyboard, both colour schemes, offline, hostile names, size."""

import re

import numpy as np
import pytest

import almostsure as asure
from almostsure.report import write_report
from almostsure.testing.families import chain, garnet


def middle_of(page, row, column, rows=12, columns=12):
    box = page.locator("#stage canvas").bounding_box()
    return box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows


def picture(page):
    return page.evaluate("document.querySelector('#stage canvas').toDataURL()")


def test_the_summary_is_on_the_page(visit, hazard):
    page = visit(hazard)
    assert "damage can be kept to at most 3 in every single run" in page.inner_text("h1")
    assert page.inner_text("#facts").count("\n") > 5
    assert "✓ verified" in page.inner_text("#proof")
    assert asure.example("hazard-map").fingerprint in page.inner_text("#fingerprint")


def test_the_slider_shrinks_the_safe_region(visit, quicksand):
    page = visit(quicksand)
    slider = page.locator("#budget")
    slider.focus()
    before = picture(page)
    counts = []
    page.keyboard.press("Home")
    for _ in range(7):
        counts.append(int(page.inner_text("#budget-says").split(" ")[0]))
        page.keyboard.press("ArrowRight")
    minimal = asure.minimal_budget("quicksand")
    assert counts == [int((minimal.of_state <= k).sum()) for k in range(7)]
    assert picture(page) != before


def test_a_click_shows_what_a_state_needs_and_why(visit, quicksand):
    page = visit(quicksand)
    page.mouse.click(*middle_of(page, 2, 2, rows=11))
    assert page.inner_text("#details h3").startswith("r2c2")
    assert page.inner_text("#selected-need") == "2"
    rows = page.locator("#details table").first.inner_text()
    minimal = asure.minimal_budget("quicksand")
    for action in ("north", "east", "south", "west"):
        assert f"{action}\t{minimal.of('r2c2', action)}" in rows
    page.get_by_role("button", name="north").click()
    assert "north at r2c2 needs 4" in page.inner_text("#witness")


@pytest.mark.parametrize("state", ["r2c2", "r3c1", "r5c3"])
def test_the_witness_is_the_one_that_explain_gives(visit, quicksand, state):
    page = visit(quicksand)
    page.fill("#details input[type=search]", state)
    page.keyboard.press("Enter")
    explanation = asure.minimal_budget("quicksand").explain(state)
    mdp = explanation.mdp
    shown = page.locator("#witness ol li").all_inner_texts()
    assert len(shown) == len(explanation.steps)
    for line, step in zip(shown, explanation.steps, strict=True):
        assert line.startswith(f"{mdp.state_name(step.state)}: {mdp.action_name(step.action)} → ")
        assert mdp.state_name(step.next_state) in line
        assert ("no damage" in line) == (step.damage == 0)
    assert ("for ever" in page.inner_text("#witness")) == bool(explanation.trap)


def test_values_of_actions_are_those_of_the_policy(visit, hazard):
    page = visit(hazard)
    solution = asure.solve_policy("hazard-map", asure.AlmostSure(3))
    best = page.locator("#details tr.chosen").inner_text().split("\t")
    assert best[0] == solution.mdp.action_name(solution.policy.act("r6c0", 3))
    assert float(best[3]) == pytest.approx(solution.value, abs=0.005)


def test_the_map_is_walked_with_the_arrow_keys(visit, hazard):
    page = visit(hazard)
    page.locator("#stage canvas").focus()
    for key, name in (("ArrowRight", "r6c1"), ("ArrowRight", "r6c2"), ("ArrowUp", "r5c2"), ("Home", "r6c0")):
        page.keyboard.press(key)
        assert page.inner_text("#details h3").startswith(name)
    page.keyboard.press("ArrowLeft")  # the edge
    assert page.inner_text("#details h3").startswith("r6c0")


def test_the_focus_stays_where_it_is(visit, quicksand):
    page = visit(quicksand)
    focused = lambda: page.evaluate("document.activeElement.getAttribute('data-key')")  # noqa: E731
    page.get_by_role("button", name="north").focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("button", name="north").get_attribute("aria-pressed") == "true"
    assert focused() == f"action {asure.example('quicksand').action('north')}"
    page.locator("#levels button").nth(3).focus()
    page.keyboard.press("Enter")
    assert focused() == "3"
    assert "needs 3, safe with 3 left" in page.inner_text("#announce")


def test_everything_is_reached_by_tab_and_focus_is_visible(visit, hazard):
    page = visit(hazard)
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"theme", "budget", "CANVAS", "player-go", "player-step", "player-episode"} <= reached
    page.locator("#player-next").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, input, select, canvas[tabindex], svg[role]')]"
        ".filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label'))).length"
    )
    assert unnamed == 0


def test_the_player_counts_the_budget_down(visit, hazard):
    page = visit(hazard)
    page.get_by_role("radio", name="On average").check()
    page.select_option("#player-episode", index=1)  # the most damage
    assert page.inner_text("#player-left") == "3 of 3"
    page.locator("#player-step").focus()
    page.keyboard.press("End")
    assert page.inner_text("#player-left").startswith("overspent by")
    page.get_by_role("radio", name="Never more").check()
    page.locator("#player-step").focus()
    page.keyboard.press("End")
    assert "of 3" in page.inner_text("#player-left")


def test_the_player_plays_pauses_and_steps(visit, hazard):
    page = visit(hazard)
    step = lambda: int(page.input_value("#player-step"))  # noqa: E731
    page.click("#player-next")
    page.click("#player-next")
    page.click("#player-back")
    assert step() == 1
    page.select_option("select[aria-label=Speed]", "10")
    page.locator("#player-go").focus()
    page.keyboard.press("Space")
    page.locator("#player-log", has_text=re.compile(r"^Step ([4-9]|\d\d) of")).wait_for()
    page.keyboard.press("Space")
    assert "Play" in page.inner_text("#player-go")
    assert page.inner_text("#player-log").startswith(f"Step {step()} of")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_have_enough_contrast(visit, hazard, scheme):
    page = visit(hazard, color_scheme=scheme)
    for selector in ("h1", ".lead", "#facts dt", "#details td", ".sub"):
        ink, paper = page.evaluate(
            """selector => { const e = document.querySelector(selector); let p = e;
            while (getComputedStyle(p).backgroundColor === 'rgba(0, 0, 0, 0)') p = p.parentElement;
            return [getComputedStyle(e).color, getComputedStyle(p).backgroundColor]; }""",
            selector,
        )
        assert contrast(ink, paper) > 4.5, selector
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (luminance(background) < 0.1) == (scheme == "dark")


def test_the_theme_can_be_chosen(visit, hazard):
    page = visit(hazard, color_scheme="light")
    light = picture(page)
    page.click("#theme")
    assert picture(page) == light
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: dark"
    assert picture(page) != light
    assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) < 0.1


def test_a_phone_and_paper(visit, hazard):
    page = visit(hazard, viewport={"width": 360, "height": 740}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.emulate_media(media="print")
    assert page.locator("#theme").is_hidden()
    assert len(page.pdf()) > 20_000
    assert page.evaluate("document.documentElement.hasAttribute('data-theme')") is False  # after printing as before


def test_hostile_names_are_inert(visit, hostile, tmp_path):
    page = visit(write_report(hostile, tmp_path / "r.html", command="</script><script>window.pwned=1</script>"))
    for _ in range(2):
        page.locator("#details table button").first.click()
    page.locator("#stage svg").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("window.pwned === undefined")
    assert page.locator("img").count() == 0
    assert "</script>" in page.inner_text("#play")
    # Even markup that got into the page could not run: the policy forbids it.
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<i id=x></i>')")
    assert page.locator("#x").count() == 1


def test_inline_handlers_are_forbidden_by_the_policy(browser, hazard):
    page = browser.new_page()
    page.goto(hazard.as_uri())
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=data:, onerror=\"window.pwned=1\">')")
    page.wait_for_timeout(100)
    assert page.evaluate("window.pwned === undefined")
    page.close()


# Boxes of the labels of arrows, and of everything else that a label must not touch.
LABELS_THAT_TOUCH = """() => {
    const boxes = (selector) => [...document.querySelectorAll(`#stage ${selector}`)]
        .map((e) => [e.textContent, e.getBoundingClientRect()]);
    const labels = boxes("svg > g:last-child > text");
    const others = [...boxes(".node > circle:not(.ring)"), ...boxes(".node > text")];
    const touch = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
    return [labels.length, labels.flatMap(([name, a], i) => [...labels.slice(i + 1), ...others]
        .filter(([, b]) => touch(a, b)).map(([other]) => `${name} on ${other}`))];
}"""
ARROWS_THAT_ARE_NAMED = """() => [...document.querySelectorAll("#stage svg > g:last-child > text")]
    .filter((e) => e.childNodes[1].textContent.startsWith("action")).length"""


def test_labels_of_a_graph_touch_neither_each_other_nor_a_state(visit, tmp_path):
    states, actions, targets = [0, 0, 0, 1, 1, 2, 2], [0, 1, 2, 0, 1, 0, 1], [0, 1, 2, 0, 1, 3, 1]
    mdp = asure.from_transitions(states, actions, targets, [1] * 7, [0] * 7, [0, 1, 0, 0, 0, 3, 0], terminal=[3])
    page = visit(write_report(mdp, tmp_path / "r.html", budget=4))
    assert page.evaluate(LABELS_THAT_TOUCH) == [7, []]


def test_among_many_arrows_those_of_the_selected_state_are_named(visit, tmp_path):
    page = visit(write_report(garnet(12, 3, 2, seed=1), tmp_path / "r.html"))
    before = page.evaluate(ARROWS_THAT_ARE_NAMED)
    assert 0 < before < 12
    assert page.locator("#stage .edge:not(.aside)").count() == before
    page.locator("#stage .node").nth(7).click()
    assert page.locator("#stage .edge:not(.aside)").count() == page.evaluate(ARROWS_THAT_ARE_NAMED)
    assert page.locator("#stage .edge.aside").count() > 24


def test_a_wide_graph_scrolls_to_the_selected_state(visit, tmp_path):
    page = visit(write_report(chain(20), tmp_path / "r.html"))
    page.locator("#stage svg").focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    assert page.inner_text("#details h3") == "state 12"
    assert page.evaluate("""() => {
        const [stage, node] = ["#stage", "#stage .selected"]
            .map((e) => document.querySelector(e).getBoundingClientRect());
        return stage.left <= node.left && node.right <= stage.right; }""")


def test_a_graph_is_walked_with_the_arrow_keys(visit, tmp_path):
    page = visit(write_report("paper", tmp_path / "r.html"))
    page.locator("#stage svg").focus()
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#details h3").startswith("square")


@pytest.mark.parametrize("budget", [0, 2])
def test_hopeless_and_tiny_models_open(visit, tmp_path, budget):
    models = {
        "hopeless": asure.from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [1, 1], [1, 1]),
        "one": asure.from_transitions([0], [0], [0], [1], [0], [0]),
        "free": asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [0, 1], terminal=[1]),
    }
    for name, mdp in models.items():
        page = visit(write_report(mdp, tmp_path / f"{name}.html", budget=budget))
        assert page.locator("h1").is_visible()


def test_a_million_states_open(visit, tmp_path):
    mdp = garnet(1_000_000, 2, 2, seed=1, damage_rate=0.02)
    path = write_report(mdp, tmp_path / "large.html", budget=1)
    assert path.stat().st_size < 2_000_000
    page = visit(path)
    assert "too many to draw" in page.inner_text("#explore-lead")
    assert re.search(r"9\d\d,\d\d\d states", page.inner_text("#levels"))
    page.locator("#levels button").nth(1).click()
    assert page.inner_text("#selected-need") == "1"
    assert "damage 1" in page.inner_text("#witness")
    assert page.locator("#notes li").count() >= 2


def test_a_large_map_is_gathered_into_squares(visit, tmp_path):
    rng = np.random.default_rng(0)
    cells = rng.choice(list("......~#"), (240, 240))
    cells[0, 0], cells[-1, -1] = "S", "G"
    page = visit(write_report(asure.from_map(cells, step_reward=-1.0), tmp_path / "map.html", budget=0))
    assert "2 × 2 cells" in page.inner_text("#explore-lead")
    page.mouse.click(*middle_of(page, 60, 60, rows=120, columns=120))
    assert page.inner_text("#details h3").startswith("r")


# ---------------------------------------------------------------------- colours


def luminance(colour):
    channels = [int(x) / 255 for x in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
