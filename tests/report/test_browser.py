"""The report in a real browser: slider, click, player, keyboard, both colour schemes, offline, hostile names, size."""

import csv
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import almostsure as asure
from almostsure.model.source import as_model
from almostsure.report import write_report
from almostsure.report.words import show
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


def test_what_is_unknown_in_a_learned_model_is_not_called_infinite(visit, tmp_path):
    log = {"s": [0] * 300, "a": [0] * 300, "s'": [1] * 300, "d": [0] * 300, "terminated": [True] * 300}
    learned = asure.learn_from_logs(log, mu=0.1, delta=0.01, num_states=2, actions=2)
    page = visit(write_report(learned.mdp, tmp_path / "learned.html", budget=0))
    page.locator("#levels button").last.click()
    assert "What state 1 needs is unknown: too little was learned." in page.inner_text("#witness")
    assert "∞" not in page.inner_text("#witness") + page.inner_text("#levels")
    assert "not known to be safe" in page.inner_text("#levels")


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


def test_a_click_shows_the_minimal_budget_of_a_state_and_its_witness(visit, quicksand):
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
    assert ("A cycle, with damage in each round" in page.inner_text("#witness")) == bool(explanation.trap)


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


def test_the_focus_is_kept(visit, quicksand):
    page = visit(quicksand)
    focused = lambda: page.evaluate("document.activeElement.getAttribute('data-key')")  # noqa: E731
    page.get_by_role("button", name="north").focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("button", name="north").get_attribute("aria-pressed") == "true"
    assert focused() == f"action {asure.example('quicksand').action('north')}"
    page.locator("#levels button").nth(3).focus()
    page.keyboard.press("Enter")
    assert focused() == "3"
    assert "needs 3, safe with 4 left" in page.inner_text("#announce")


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


def test_narrow_windows_and_printing(visit, hazard):
    page = visit(hazard, viewport={"width": 360, "height": 740}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.emulate_media(media="print")
    assert page.locator("#theme").is_hidden()
    assert len(page.pdf()) > 20_000
    assert page.evaluate("document.documentElement.hasAttribute('data-theme')") is False  # printing restores the theme


def test_hostile_names_are_inert(visit, hostile, tmp_path):
    page = visit(write_report(hostile, tmp_path / "r.html", command="</script><script>window.pwned=1</script>"))
    for _ in range(2):
        page.locator("#details table button").first.click()
    page.locator("#stage svg").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("window.pwned === undefined")
    assert page.locator("img").count() == 0
    assert "</script>" in page.inner_text("#play")
    # Even inserted markup cannot run scripts: the policy forbids it.
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<i id=x></i>')")
    assert page.locator("#x").count() == 1


def test_inline_handlers_are_forbidden_by_the_policy(browser, hazard):
    page = browser.new_page()
    page.goto(hazard.as_uri())
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=data:, onerror=\"window.pwned=1\">')")
    page.wait_for_timeout(100)
    assert page.evaluate("window.pwned === undefined")
    page.close()


# The boxes of the labels of arrows, and of everything that they must not overlap.
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


def test_hundreds_of_thousands_of_states_open(visit, tmp_path):
    mdp = garnet(300_000, 2, 2, seed=1, damage_rate=0.02)
    path = write_report(mdp, tmp_path / "large.html", budget=1)
    assert path.stat().st_size < 2_000_000
    page = visit(path)
    assert "too many to draw" in page.inner_text("#explore-lead")
    assert re.search(r"2\d\d,\d\d\d states", page.inner_text("#levels"))
    page.locator("#levels button").nth(1).click()
    assert page.inner_text("#selected-need") == "1"
    assert "damage 1" in page.inner_text("#witness")
    assert page.locator("#notes li").count() >= 2


def test_squares_of_a_large_map_stand_for_several_cells(visit, tmp_path):
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


# ---------------------------------------------------------------------- consistency of all parts


def sampled_mean(page):
    """The mean of the sampled returns that the histogram of the assured policy shows."""
    text = page.locator("#kinds-charts .thirds").nth(1).locator(".card").first.text_content()
    return float(re.search(r"mean ([−\d.,]+)", text)[1].replace("−", "-").replace(",", ""))


@pytest.mark.parametrize("name", [*asure.model.example_names(), "gym:FrozenLake-v1", "gym:CliffWalking-v1"])
def test_headline_player_and_histogram_are_about_one_policy(visit, tmp_path, content_of, name):
    path = write_report(name, tmp_path / "report.html")
    content = content_of(path)
    assured = content["plans"][0]
    assert assured["played"] == pytest.approx(assured["value"], rel=1e-9, abs=1e-9)
    mdp = as_model(name)
    again = asure.solve_policy(mdp, asure.AlmostSure(content["budget"]))
    assert assured["value"] == pytest.approx(again.value, rel=1e-9, abs=1e-9)
    page = visit(path)
    assert show(assured["value"]) in page.text_content("#headline")
    returns = content["distributions"]["plans"][0]["return"]
    episodes = asure.simulate(mdp, again.policy, 10_000, seed=1)
    error = 6 * float(episodes.returns.std()) / 100 + 0.01
    assert abs(returns["mean"] - assured["value"]) <= error
    assert abs(sampled_mean(page) - assured["value"]) <= error + 0.01
    assert returns["cut"] == 0
    typical = page.locator("#player-episode option").first.text_content()
    record = content["episodes"][0]
    assert record["kind"] == "assured"
    assert record["sum"]["damage"] <= content["budget"]
    assert f"damage {record['sum']['damage']}" in typical


def test_arrows_on_the_likeliest_run_are_the_actions_of_the_run(visit, hazard):
    page = visit(hazard)
    mdp = asure.example("hazard-map")
    policy = asure.solve_policy(mdp, asure.AlmostSure(3)).policy
    page.locator(".find input").fill("r6c0")
    page.click(".find button")
    best = page.locator("tr.chosen td").first.text_content()
    assert best == mdp.action_name(policy.act("r6c0", 3))


def test_two_episodes_are_played_side_by_side(visit, hazard, content_of):
    page = visit(hazard)
    records = content_of(hazard)["episodes"]
    other = next(i for i, record in enumerate(records) if record["kind"] == "expected")
    page.select_option("#player-other", str(other))
    assert page.locator("#player .beside canvas").count() == 2
    longest = max(records[0]["steps"], records[other]["steps"])
    for _ in range(longest):
        page.click("#player-next")
    left = 3 - records[other]["sum"]["damage"]
    said = f"{left} of 3 left" if left >= 0 else f"overspent by {-left}"
    assert page.text_content("#player-beside") == said


def test_the_drawing_and_the_numbers_can_be_downloaded(visit, hazard):
    page = visit(hazard)
    with page.expect_download() as download:
        page.click("#tools button[aria-label='Save the drawing as SVG']")
    text = Path(download.value.path()).read_text("utf-8")
    assert text.startswith("<svg")
    ElementTree.fromstring(text)
    with page.expect_download() as download:
        page.click("#tools button[aria-label='Save the minimal budgets as CSV']")
    rows = list(csv.DictReader(Path(download.value.path()).read_text("utf-8").splitlines()))
    minimal = asure.minimal_budget("hazard-map")
    assert [row["needs"] for row in rows] == [
        "inf" if need == asure.INFINITE else str(need) for need in minimal.of_state.tolist()
    ]
    start = next(row for row in rows if row["name"] == "r6c0")
    assert float(start["return"]) == pytest.approx(31.5359, abs=1e-3)


def test_zoom_and_another_budget_to_compare_with(visit, hazard):
    page = visit(hazard)
    before = page.locator("#stage canvas").bounding_box()["width"]
    page.click("#tools button[aria-label='Zoom in']")
    assert page.locator("#stage canvas").bounding_box()["width"] == pytest.approx(1.5 * before, rel=0.01)
    page.click("#tools button[aria-label='The whole drawing']")
    drawn = page.evaluate("document.querySelector('#stage canvas').toDataURL()")
    page.select_option("#other", label="0 left")
    assert page.evaluate("document.querySelector('#stage canvas').toDataURL()") != drawn
    assert "other action with 0 left" in page.text_content("#legend")


def test_a_model_of_variables_has_axes_and_sliders(visit, tmp_path):
    def outcomes(state, action):
        x, y, door = state
        step = {"right": (min(x + 1, 5), y, door), "up": (x, min(y + 1, 6), door), "key": (x, y, True)}[action]
        return [(1.0, step, 0.0, int(step[:2] == (2, 2) and not door))]

    mdp = asure.from_function(outcomes, initial=(0, 0, False), actions=["right", "up", "key"])
    page = visit(write_report(mdp, tmp_path / "report.html", budget=1))
    assert page.locator("#variables select").count() == 2
    assert page.locator("#variables input[type=range]").count() == 1
    page.locator(".find input").fill("(3, 4, True)")
    page.click(".find button")
    assert "(3, 4, True)" in page.text_content("#details h3")
    assert page.locator("#variables output").text_content() == "True"
    page.locator("#variables select").first.select_option(label="part 3")
    assert page.locator("#variables input[type=range]").count() == 1


def test_states_of_a_graph_whose_names_are_long_show_their_values(visit, tmp_path):
    names = [f"queue={k}, retries={k % 2}, power={1 + k // 4}" for k in range(5)]
    arrays = [0, 1, 2, 3], [0] * 4, [1, 2, 3, 4], [1] * 4, [0] * 4, [0, 1, 0, 0]
    mdp = asure.from_transitions(*arrays, terminal=[4], state_names=names)
    page = visit(write_report(mdp, tmp_path / "r.html", time_limit=1))
    assert "The labels are the values of queue, retries, power." in page.inner_text("#explore-lead")
    shown = page.locator("#stage .node > text.strong").all_text_contents()
    assert shown == ["0, 0, 1", "1, 1, 1", "2, 0, 1", "3, 1, 1", "4, 0, 2"]
    assert page.inner_text("#details h3").startswith(names[0])


def small_text(page):
    """The texts of the page that are smaller than 11 pixels."""
    return page.evaluate("""() => {
      const found = [];
      for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || element.closest("script, style, .unseen, noscript") || !element.getClientRects().length) continue;
        const svg = element.closest("svg");
        const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
        if (parseFloat(getComputedStyle(element).fontSize) * scale < 11) found.push(element.textContent);
      }
      return found;
    }""")


@pytest.mark.parametrize("width", [320, 360, 390])
def test_on_a_phone_no_text_is_small_and_the_page_is_not_too_wide(visit, hazard, width):
    page = visit(hazard, viewport={"width": width, "height": 780})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert small_text(page) == []


def test_the_code_on_the_page_runs(visit, quicksand):
    page = visit(quicksand)
    code = page.locator("#proof pre").first.text_content()
    exec(code, {"mdp": asure.example("quicksand")})


# ---------------------------------------------------------------------- unusual models

LONG = "x" * 10_000


def test_names_of_any_length_and_direction_do_not_break_the_page(visit, tmp_path):
    mdp = asure.from_transitions(
        [0, 0, 1, 3], [0, 1, 0, 0], [1, 2, 3, 2], [1] * 4, [1, 2, -1, 0], [0, 3, 1, 0], terminal=[2],
        state_names=["<script>alert(1)</script>\n\"a\" 'b'", "\u202eright to left", LONG, "two\nlines"],
        action_names=["a\"b'c<b>", LONG],
    )  # fmt: skip
    path = write_report(mdp, tmp_path / "report.html", name=LONG)
    for width in (1180, 360):
        page = visit(path, viewport={"width": width, "height": 780})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.inner_text("#details h3").startswith("<script>alert(1)</script>\\n\"a\" 'b'")
        shown = page.inner_text("body")
        assert "\u202e" not in shown
        assert "\\u202eright to left" in shown
        assert LONG[:119] + "…" in shown
        for code in page.locator("#proof code").all_inner_texts():  # commands are not shortened
            shown = shown.replace(code, "")
        assert LONG[:121] not in shown
        assert small_text(page) == []


def test_infinite_budgets_and_returns_are_explained(visit, tmp_path):
    hopeless = asure.from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [1, 1], [1, 1])
    page = visit(write_report(hopeless, tmp_path / "hopeless.html"), viewport={"width": 360, "height": 780})
    assert "no finite budget suffices: damage can be forced again and again" in page.inner_text("h1")
    assert page.inner_text("#budget-says") == "0 of 2 states are safe. The start is not safe."
    assert "No finite budget suffices from the start" in page.inner_text("#returns-lead")
    assert "NaN" not in page.inner_text("body")
    assert small_text(page) == []
    free = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [0, 1], terminal=[1])
    page = visit(write_report(free, tmp_path / "free.html", budget=2))
    assert "reward can be collected for ever" in page.inner_text("#sentences")
    assert page.inner_text("#budget-says").endswith("From the start the return is unbounded.")
    assert page.inner_text("#returns-lead") == "No computed budget has a finite return."
    endless = asure.from_transitions([0], [0], [0], [1], [-1], [0])
    page = visit(write_report(endless, tmp_path / "endless.html"))
    assert "it is safe, but does not surely end, and costs add up for ever; " in page.inner_text("#sentences")
    assert page.inner_text("#budget-says").startswith("The only state is safe.")
    assert "NaN" not in page.inner_text("body")


def test_the_assured_curve_is_a_step_function(visit, hazard):
    page = visit(hazard)
    drawn = {kind: page.locator(f"#return-charts path.s-{kind}").first for kind in ("assured", "expected")}
    assert set(re.findall("[A-Z]", drawn["assured"].get_attribute("d"))) == {"M", "H", "V"}
    assert set(re.findall("[A-Z]", drawn["expected"].get_attribute("d"))) == {"M", "L"}
