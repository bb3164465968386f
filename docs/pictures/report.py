"""Photograph two reports in Chromium, as report-light.png and report-dark.png; needs Playwright and Chromium.

python docs/pictures/report.py
"""

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from almostsure.report import write_report

FOLDER = Path(__file__).parent
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
COLOURS = 200  # of the palette: small files
MARGIN = 20


def photograph(browser: Browser, report: Path, scheme: str, first: str, last: str, target: Path) -> None:
    """From the top of the element ``first`` to the bottom of ``last``."""
    page = browser.new_page(viewport={"width": 1160, "height": 900}, color_scheme=scheme)
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-ready]")
    top = page.locator(first).bounding_box()["y"]
    end = page.locator(last).bounding_box()
    clip = {"x": 0, "y": max(0, top - MARGIN), "width": 1160, "height": end["y"] + end["height"] - top + 2 * MARGIN}
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
    page.close()


def main() -> None:
    """Write both pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
        hazard = write_report("hazard-map", Path(folder) / "hazard.html", budget=3)
        photograph(browser, hazard, "light", ".top", ".stage-card", FOLDER / "report-light.png")
        quicksand = write_report("quicksand", Path(folder) / "quicksand.html")
        photograph(browser, quicksand, "dark", "#explore-title", ".stage-card", FOLDER / "report-dark.png")
        browser.close()


if __name__ == "__main__":
    main()
