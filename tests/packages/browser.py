# SPDX-License-Identifier: MIT
"""Chromium without a window, driven over a pipe by its DevTools protocol: no driver and no package is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

PATIENCE = int(os.environ.get("PATIENCE", "120"))  # seconds that nothing should need


class Browser:
    """One browser with one page. Each method waits for its answer."""

    def __init__(self, scratch):
        program = shutil.which("chromium")
        to_browser, from_us = os.pipe()
        to_us, from_browser = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []

        def places():
            # The browser reads from descriptor 3 and writes to 4.
            read, write = os.dup(to_browser), os.dup(from_browser)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
             "--disable-background-networking", "--disable-dev-shm-usage", f"--user-data-dir={scratch}/profile", *sandbox, "about:blank"],
            pass_fds=(3, 4, to_browser, from_browser), preexec_fn=places, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(scratch), "XDG_CONFIG_HOME": f"{scratch}/config"})
        os.close(to_browser)
        os.close(from_browser)
        self.write, self.read = from_us, to_us
        self.buffer, self.number, self.events, self.session = b"", 0, [], None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Network", "Log":
            self.call(f"{domain}.enable")

    def message(self):
        """Returns the next message of the browser."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read], [], [], PATIENCE)
            part = os.read(self.read, 1 << 20) if ready else b""
            if not part:
                raise SystemExit("the browser says nothing more")
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **parameters):
        """Returns the result of a method; events that come meanwhile are kept."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']}")
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def run(self, script):
        """Returns the value of an expression of the page; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{script[:200]}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    def wait(self, script, what=None):
        """Waits until an expression is true; while the page is being made it may fail. Returns its value and the seconds it took."""
        begin = time.monotonic()
        while time.monotonic() - begin < PATIENCE:
            value = self.run(f"(() => {{ try {{ return {script}; }} catch {{ return false; }} }})()")
            if value:
                return value, time.monotonic() - begin
            time.sleep(0.05)
        raise SystemExit(f"the page: {self.run('document.body.innerText')}\nwaited in vain for {what or script}")

    def open(self, url):
        """Loads a page that is not the one that is there, but for its fragment."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)

    def look(self, width, height=900, dark=False, still=True):
        """Shows the page at a width in CSS pixels, in a scheme of colours, with motion or without."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                    {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self, path):
        """Writes a picture of all of the page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
        except SystemExit:
            pass
        self.process.wait(PATIENCE)
