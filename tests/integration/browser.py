"""Debian's browser, without a window: it opens a page and says how it looks."""

from __future__ import annotations

import json
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DEADLINE_S = 120

OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--disable-background-networking", "--no-first-run", "--enable-logging=stderr", "--window-size=1100,1600"),
)

MEASURE = """
<script>
const inside = text => {
  const box = text.getBBox(), view = text.closest('svg').viewBox.baseVal;
  return box.x >= 0 && box.y >= 0 && box.x + box.width <= view.width && box.y + box.height <= view.height;
};
const found = {
  headings: [...document.querySelectorAll('h1,h2,h3')].map(each => each.textContent),
  plots: [...document.querySelectorAll('svg')].map(each => [each.clientWidth, each.clientHeight]),
  spilled: [...document.querySelectorAll('svg text')].filter(each => !inside(each)).map(each => each.textContent),
  wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  bars: document.querySelectorAll('svg rect').length,
  rows: document.querySelectorAll('tbody tr').length,
  text: document.body.innerText,
  ran: window.ran === true,
};
document.title = JSON.stringify(found);
</script>
"""


def look(page: str, folder: Path) -> dict[str, Any]:
    """Open *page* and return what is on it. Its own security rules are taken out of the copy that is measured."""
    measured = page.replace('<meta http-equiv="Content-Security-Policy"', "<meta").replace(
        "</body>", f"{MEASURE}</body>"
    )
    printed = _open(measured, folder, "--dump-dom")
    title = printed.partition("<title>")[2].partition("</title>")[0]
    return json.loads(unescape(title))  # type: ignore[no-any-return]


def complaints(page: str, folder: Path) -> list[str]:
    """Open *page* as it is and return what the browser's console says."""
    _open(page, folder, "--dump-dom")
    return [line for line in (folder / "browser.log").read_text().splitlines() if "CONSOLE" in line]


def _open(page: str, folder: Path, *options: str) -> str:
    if PROGRAM is None:
        pytest.skip("no browser is installed here; on Debian: apt-get install --no-install-recommends chromium")
    (folder / "page.html").write_text(page, encoding="utf-8")
    with (folder / "browser.log").open("w") as log:
        done = subprocess.run(
            [PROGRAM, *OPTIONS, f"--user-data-dir={folder / 'profile'}", *options, (folder / "page.html").as_uri()],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            check=True,
            timeout=DEADLINE_S,
        )
    return done.stdout
