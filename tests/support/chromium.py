"""Drives a real Chromium over its debugging pipe, with nothing but the standard library."""

import base64
import json
import os
import select
import subprocess
import sys
import time

PATIENCE = 60.0


class Chromium:
    """A headless browser with one tab; keeps what it complained about and what it asked the network for.

    Args:
      path: the program.
      profile: an empty folder for what it writes.
      size: of the window, in pixels.
      dark: whether the page is told that the reader prefers dark.
    """

    def __init__(self, path, profile, size=(1360, 1000), dark=False):
        to_it, from_us = os.pipe()
        from_it, its = os.pipe()
        self._out, self._in, self._number, self._buffer = from_us, from_it, 0, b""
        self.complaints, self.requests = [], []
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        words += ["--no-first-run", f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}", "about:blank"]
        # The browser reads its commands from descriptor 3 and answers on 4, which only a child can be given in time.
        program = (
            "import os, sys; one, two = os.dup(int(sys.argv[1])), os.dup(int(sys.argv[2])); "
            "one, two = (os.dup(one), os.dup(two)) if {one, two} & {3, 4} else (one, two); "
            "os.dup2(one, 3); os.dup2(two, 4); os.execv(sys.argv[3], sys.argv[3:])"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, str(to_it), str(its), path, *words],
            pass_fds=(to_it, its),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_it)
        os.close(its)
        target = self._tab()
        self._session = self.ask("Target.attachToTarget", session=None, targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def _tab(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = self.ask("Target.getTargets", session=None)["targetInfos"]
            if pages := [each["targetId"] for each in found if each["type"] == "page"]:
                return pages[0]
            time.sleep(0.05)
        raise TimeoutError("the browser opens no tab")

    def close(self):
        """Ends the browser."""
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def open(self, path):
        """Opens a file and waits until its heat map is drawn; returns the milliseconds that took, by the page's clock."""
        self.ask("Page.navigate", url=path.resolve().as_uri())
        return self.until("document.readyState === 'complete' && document.documentElement.dataset.drawn")

    def until(self, expression):
        """Waits until an expression of the page is true, and returns it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = self.evaluate(expression)
            if found:
                return found
            time.sleep(0.05)
        raise TimeoutError(f"{expression} is not true after {PATIENCE} s; the page complained of: {self.complaints}")

    def evaluate(self, expression, patience=PATIENCE):
        """Returns the value of an expression in the page; what it promises may take `patience` seconds."""
        words = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self.ask("Runtime.evaluate", patience=patience, **words)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def press(self, key, modifiers=0):
        """Presses a key in the page; `modifiers` 2 is Ctrl."""
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        codes = {"Enter": 13, "Escape": 27, "Tab": 9}
        words = {"key": key, "modifiers": modifiers, "windowsVirtualKeyCode": codes.get(key, 0)}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **words)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **words)

    def click(self, x, y):
        """Clicks at a place of the window, in pixels."""
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path):
        """Writes the whole page as a PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))

    def ask(self, method, session="", patience=PATIENCE, **parameters):
        """Sends a command and returns its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + patience
        while True:
            answer = self._receive(end)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _receive(self, end):
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise EOFError(f"the browser ended, code {self._process.poll()}")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(parameters["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(parameters["args"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(parameters["message"])
