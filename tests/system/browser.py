"""A headless Chromium, spoken to by its own DevTools protocol: half a dozen calls are no reason for a library."""

from __future__ import annotations

import base64
import itertools
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from websockets.sync.client import connect

from tests.waiting import PATIENCE_S, until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

AGAIN_S = 60.0
"""After which something is done once more that has not shown: a page that still moves lets a click pass, and what a
busy server refuses no page asks for again."""

_LISTENING = re.compile(r"DevTools listening on ws://(\S+?)/.*\n")

_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


class Browser:
    """One browser with one page; a context. Everything that looks for something waits for it."""

    def __init__(self, patience_s: float = 500.0, width: int = 1280, height: int = 1000) -> None:
        assert CHROMIUM
        self._patience_s = patience_s
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        log = Path(self._profile.name, "stderr")
        with log.open("wb") as stderr:  # a pipe that nobody reads would hold it up
            self._process = subprocess.Popen(
                [
                    CHROMIUM,
                    *_ARGUMENTS,
                    f"--window-size={width},{height}",
                    f"--user-data-dir={self._profile.name}",
                ],
                stderr=stderr,
            )
        until(lambda: _LISTENING.search(log.read_text(errors="replace")) or self._process.poll() is not None)
        listening = _LISTENING.search(log.read_text(errors="replace"))
        assert listening, log.read_text(errors="replace")
        new = f"http://{listening[1]}/json/new?about:blank"
        page = httpx.put(new, trust_env=False, timeout=patience_s).json()
        self._socket = connect(
            page["webSocketDebuggerUrl"],
            max_size=None,
            proxy=None,
            open_timeout=patience_s,
            ping_interval=None,  # a machine may stall for longer than it waits for an answer
        )
        self._numbers = itertools.count(1)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._profile.cleanup()

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)

    def script(self, expression: str) -> Any:
        """Returns what a JavaScript expression gives in the page: in the next one, where this one is just going."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
                break
            except _Refused:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self) -> str:
        """Returns what the page shows as text."""
        return str(self.script("document.body ? document.body.innerText : ''"))

    def wait_for(self, condition: Callable[[], Any], what: str) -> Any:
        """Returns the first true answer of a condition. Fails with the page's text when there is none in time."""
        deadline = time.monotonic() + self._patience_s
        while not (found := condition()):
            assert time.monotonic() < deadline, f"no {what} on the page:\n{self.text()[:3000]}"
            time.sleep(0.2)
        return found

    def wait_for_text(self, text: str) -> None:
        self.wait_for(lambda: text in self.text(), repr(text))

    def persist(self, act: Callable[[], object], condition: Callable[[], Any], what: str) -> Any:
        """Acts until the condition is true, once more after a minute, two and so on; returns what it gives then.

        `act` gives what is not true where it cannot be done yet.
        """
        pause, again = AGAIN_S, time.monotonic()

        def reached() -> Any:
            nonlocal pause, again
            found = condition()
            if not found and time.monotonic() >= again and act():
                pause, again = 2 * pause, time.monotonic() + pause
            return found

        return self.wait_for(reached, what)

    def show(self, url: str, text: str) -> None:
        """Opens a page until it shows the text."""

        def load() -> bool:
            self.open(url)
            return True

        self.persist(load, lambda: text in self.text(), repr(text))

    def shows(self, xpath: str) -> Any:
        """Returns the middle of the first visible element, or nothing."""
        find = f"""(() => {{
            const all = document.evaluate({json.dumps(xpath)}, document, null,
                XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
            for (let i = 0; i < all.snapshotLength; i++) {{
                const element = all.snapshotItem(i);
                element.scrollIntoView({{block: "center"}});
                const box = element.getBoundingClientRect();
                if (box.width && box.height) return [box.x + box.width / 2, box.y + box.height / 2];
            }}
        }})()"""
        return self.script(find)

    def click(self, xpath: str) -> None:
        """Clicks with the mouse in the middle of the first visible element, once it stands still."""
        before = None

        def stands() -> Any:
            nonlocal before
            last, before = before, self.shows(xpath)
            return before if before == last else None

        x, y = self.wait_for(stands, xpath)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def submit(self, xpath: str) -> None:
        """Clicks until the page goes elsewhere."""
        page = self.script("location.href")

        def press() -> bool:
            # What an error of a slow server popped up may lie on the button, and stays while the mouse is there.
            self.script("document.querySelectorAll('.p-toast__close-btn').forEach(each => each.click())")
            if not self.shows(xpath):
                return False
            self.click(xpath)
            return True

        self.persist(press, lambda: self.script("location.href") != page, f"way on after {xpath}")

    def fill(self, xpath: str, text: str) -> None:
        """Replaces the text of a field, again until it is there: a page still being built moves or forgets it."""
        field = f"""document.evaluate({json.dumps(xpath)}, document, null,
            XPathResult.FIRST_ORDERED_NODE_TYPE, null).singleNodeValue"""

        def filled() -> bool:
            self.click(xpath)
            if not self.script(f"(field => field && document.activeElement === field)({field})"):
                return False
            self.script("document.activeElement.select(); document.execCommand('delete')")
            self.type(text)
            return bool(self.script(f"(field => field && field.value === {json.dumps(text)})({field})"))

        self.wait_for(filled, f"{xpath} that keeps {text!r}")

    def type(self, text: str) -> None:
        """Types into what has the focus."""
        self._call("Input.insertText", text=text)

    def press_enter(self) -> None:
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent",
                type=kind,
                key="Enter",
                code="Enter",
                windowsVirtualKeyCode=13,
                text="\r",
            )

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=self._patience_s))
            if answer.get("id") == number:
                if "error" in answer:
                    raise _Refused(f"{method}: {answer['error']}")
                return answer["result"]


class _Refused(Exception):
    """The browser does not do as it is told: of a page that is going, no script is run any more."""
