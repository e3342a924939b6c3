"""Take the pictures of the page that README and docs show: `python tools/docs/page.py`.

It needs Chromium.

A page of ResNet-18, of the gallery's trace, in the middle of its backward; and four moments of a
backward through a small network. They are made by hand, when the page has changed, and not
compared: fonts differ from machine to machine.
"""

from __future__ import annotations

import base64
import shutil
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import sync_playwright

from gradscope.render.pictures import render
from gradscope.trace.load_save import load

DOCS = Path(__file__).resolve().parents[2] / "docs"
IMAGES = DOCS / "images"
WALKED = """() => { const app = window.gradscope;
  const boxes = app.picture.all.filter(box => box.is === "node");
  const time = box => app.tree.nodeNs[box.node];
  const { node } = boxes.reduce((slow, box) => time(box) > time(slow) ? box : slow);
  app.selectNode(node, false);
  app.go(app.model.runs.get("begun")[app.runOf(node)]);
  document.getElementById("zoom-all").click(); }"""
MOMENTS = (1, 5, 10, 17)
"""The runs of the small network's backward that four moments are taken of: as they begin."""
AT_RUN = """run => { const app = window.gradscope;
  const { begun, backward } = app.model.runs.columns;
  const events = [...begun].filter((each, row) => each >= 0 && backward[row] === app.backward);
  events.sort((one, other) => one - other);
  app.go(run > events.length ? app.events[1] : events[run - 1]);
  document.getElementById("zoom-all").click(); }"""


def main() -> None:
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        shown = opened(browser, Path(folder), "resnet.json.gz", 1320, 800)
        shown.evaluate(WALKED)
        shown.wait_for_timeout(300)
        shown.screenshot(path=IMAGES / "page.png")
        steps(browser, opened(browser, Path(folder), "mlp.json", 1180, 760))
        browser.close()


def opened(browser: Any, folder: Path, name: str, width: int, height: int) -> Any:
    """The page of a trace of the gallery."""
    page = folder / f"{name}.html"
    render(load(DOCS / "gallery" / name), page)
    shown = browser.new_page(viewport={"width": width, "height": height})
    shown.goto(page.as_uri())
    shown.wait_for_selector("html[data-ready]")
    return shown


def steps(browser: Any, shown: Any) -> None:
    """Four moments of one backward side by side: what waits, is ready, runs and is done."""
    shown.evaluate("document.querySelector('.zoom').hidden = true")
    figures = []
    for run in MOMENTS:
        shown.evaluate(AT_RUN, run)
        shown.wait_for_timeout(300)
        picture = base64.b64encode(shown.locator("#graph").screenshot()).decode()
        said = escape(shown.inner_text("#now"))
        image = f'<img src="data:image/png;base64,{picture}" style="width:100%">'
        figures.append(f"<figure>{image}<figcaption>{said}</figcaption></figure>")
    style = (
        "body{margin:0;display:grid;grid-template-columns:1fr 1fr;gap:8px;font:14px sans-serif}"
        "figure{margin:0;border:1px solid #d0d7de;border-radius:6px}figcaption{padding:6px 10px}"
    )
    both = browser.new_page(viewport={"width": 1320, "height": 100})
    both.set_content(f"<style>{style}</style>{''.join(figures)}")
    both.wait_for_timeout(300)
    both.screenshot(path=IMAGES / "time_travel.png", full_page=True)


if __name__ == "__main__":
    main()
