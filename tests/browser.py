"""A real browser for tests: Debian's chromium, spoken to through two pipes.

The DevTools protocol runs over file descriptors 3 and 4 of the browser, so that no port is opened
and no package is needed. Background networking is off.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Browser", "Tab", "browser_or_skip", "chromium_or_skip"]

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--metrics-recording-only",
    "--disable-features=OptimizationHints,MediaRouter,Translate",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0
LAUNCH = """
import os, sys
here, there = (os.dup2(int(end), high) for end, high in zip(sys.argv[1:3], (60, 61)))
os.dup2(here, 3)
os.dup2(there, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Gives the pipes the numbers that chromium expects; through higher ones, since either may be 3."""


def browser_or_skip(profile: Path) -> Browser:
    """A started browser; skips the test, saying so, where chromium is missing."""
    return Browser(chromium_or_skip(), profile)


def chromium_or_skip() -> str:
    """The program: rather the one without windows, which does a quarter less for the same page."""
    for name in ("chromium-headless-shell", "chromium", "chromium-browser"):
        if (found := shutil.which(name)) is not None:
            return found
    pytest.skip("NOT TESTED in a browser: chromium is not installed (package chromium)")


class Browser:
    """One chromium process."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(to_browser), str(from_browser),
             program, *FLAGS, f"--user-data-dir={profile}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            pass_fds=(to_browser, from_browser),
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._rest = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come in between are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._next(until)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self._read, 1 << 16) if ready else b""
            if not part:
                raise RuntimeError("the browser does not answer")
            self._rest += part
        one, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(one)
        return answer

    def tab(self) -> Tab:
        """A new empty page."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Tab(self, session)

    def close(self) -> None:
        """End the process."""
        try:
            self.ask("Browser.close")
        except (RuntimeError, OSError):
            self._process.terminate()
        for end in (self._write, self._read):
            os.close(end)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Tab:
    """One page of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.ask("Page.enable")
        self.ask("Network.enable")
        self.ask("Runtime.enable")
        self.ask("Log.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command for this page."""
        return self._browser.ask(method, self._session, **parameters)

    def look(self, *, width: int = 1400, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window and whether the reader likes it dark."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip
        value = "dark" if dark else "light"
        self.ask("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": value}])  # fmt: skip
        # The page learns of its new size a moment after the command is answered.
        self.wait(f"window.innerWidth === {width}")

    def offline(self) -> None:
        """Cut the network."""
        self.ask("Network.emulateNetworkConditions", offline=True, latency=0,
                 downloadThroughput=0, uploadThroughput=0)  # fmt: skip

    def open(self, url: str) -> None:
        """Go to an address and wait until it is there."""
        answer = self.ask("Page.navigate", url=url)
        if answer.get("errorText"):
            raise RuntimeError(f"{url}: {answer['errorText']}")
        self.wait("document.readyState === 'complete'")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + PATIENCE
        while not self.value(expression):
            if time.monotonic() > until:
                raise RuntimeError(f"it never came true: {expression}")
            time.sleep(0.05)

    def value(self, expression: str) -> Any:
        """What an expression is on the page."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def requests(self) -> list[str]:
        """Every address this page asked for so far."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event.get("sessionId") == self._session
            and event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Errors the browser logged about this page."""
        return [
            event["params"]["entry"]["text"]
            for event in self._browser.events
            if event.get("sessionId") == self._session
            and event["method"] == "Log.entryAdded"
            and event["params"]["entry"]["level"] == "error"
        ]

    def picture(self) -> bytes:
        """A PNG of the whole page."""
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    def paper(self) -> bytes:
        """The page as PDF."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])
