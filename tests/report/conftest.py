"""Reports, and a real browser."""

import json
import re
import shutil

import pytest

import almostsure as asure
from almostsure.report import write_report

HOSTILE = '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">\u2028<b>&amp;{{data}}<!--'


@pytest.fixture(scope="session")
def content_of():
    """A function that reads the JSON inside a report."""

    def content_of(path):
        text = path.read_text("utf-8")
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])

    return content_of


@pytest.fixture(scope="session")
def hostile():
    """A model whose names contain code."""
    return asure.from_transitions(
        [0, 0, 1], [0, 1, 0], [1, 2, 2], [1, 1, 1], [1, 2, -1], [0, 3, 1], terminal=[2],
        state_names=[HOSTILE, "javascript:window.pwned=1", "\x00'\"`${window.pwned=1}"],
        action_names=[HOSTILE + "2", "\x1b[31mred"],
    )  # fmt: skip


@pytest.fixture(scope="session")
def hazard(tmp_path_factory):
    return write_report("hazard-map", tmp_path_factory.mktemp("hazard") / "report.html", budget=3)


@pytest.fixture(scope="session")
def quicksand(tmp_path_factory):
    return write_report("quicksand", tmp_path_factory.mktemp("quicksand") / "report.html")


@pytest.fixture(scope="session")
def browser():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine: install the package chromium to drive reports in it")
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra almostsure[test]")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        running = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield running
        running.close()


@pytest.fixture
def visit(browser):
    """A function that opens a report offline; errors and warnings of the page fail the test."""
    contexts, complaints, requests = [], [], []

    def visit(path, **options):
        context = browser.new_context(**({"viewport": {"width": 1180, "height": 900}} | options), offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []
    assert all(url.startswith(("file:", "data:")) for url in requests)
    assert sum(url.startswith("file:") for url in requests) == len(contexts)
