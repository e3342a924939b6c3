"""Take the picture of the page that the README shows: `python docs/page.py`, where Chromium is.

A page of ResNet-18, of the gallery's trace, in the middle of its backward. It is made by hand, when
the page has changed, and not compared: fonts differ from machine to machine.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from gradscope.render.pictures import render
from gradscope.trace.load_save import load

DOCS = Path(__file__).parent
WALKED = """() => { const app = window.gradscope;
  const boxes = app.picture.all.filter(box => box.is === "node");
  const time = box => app.tree.nodeNs[box.node];
  const { node } = boxes.reduce((slow, box) => time(box) > time(slow) ? box : slow);
  app.selectNode(node, false);
  app.go(app.model.runs.get("begun")[app.runOf(node)]);
  document.getElementById("zoom-all").click(); }"""


def main() -> None:
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "resnet.html"
        render(load(DOCS / "gallery" / "resnet.json.gz"), page)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        shown = browser.new_page(viewport={"width": 1320, "height": 800})
        shown.goto(page.as_uri())
        shown.wait_for_selector("html[data-ready]")
        shown.evaluate(WALKED)
        shown.wait_for_timeout(300)
        shown.screenshot(path=DOCS / "page.png")
        browser.close()


if __name__ == "__main__":
    main()
