# SPDX-License-Identifier: MIT
"""page.py FOLDER SPILLWAY PID AXE PICTURES: looks at the pages that test_page.sh has started."""

import json
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import time

from browser import PATIENCE, Browser

FOLDER, SPILLWAY, SERVER, AXE, PICTURES = sys.argv[1:]
OTHER = os.environ["OTHER"]  # another user, with a job called theirs; "": none
REQUESTS = int(os.environ.get("REQUESTS", "100000"))


def url(name):
    """Returns the newest URL of a server."""
    with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
        return re.findall(r"http://127\.0\.0\.1:\d+/#[0-9a-f]{32}$", file.read(), re.M)[-1]


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: expected {wanted!r}, got {found!r}")


def row(name):
    """Returns the script that finds a job's row."""
    return f"[...document.querySelectorAll('tr.job')].find(r => r.querySelector('button').textContent === '{name}')"


def spillway(*arguments):
    env = {**os.environ, "LD_LIBRARY_PATH": os.environ["SOFTGPU"]}  # for NVML's answers
    return subprocess.run([SPILLWAY, *arguments], check=True, capture_output=True, text=True, env=env).stdout


def stat(name=None):
    """Returns the document of one job or of all."""
    return json.loads(spillway("stat", "--json", *([name] if name else [])))


def size(amount):
    """Writes bytes as the page does."""
    unit = 0
    while amount >= 1024:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.{0 if not unit or amount >= 100 else 1 if amount >= 10 else 2}f} {'B KiB MiB GiB'.split()[unit]}"


def agrees(what, seen, known):
    """Waits until the page shows what stat knows just then."""
    begin = time.monotonic()
    while (found := browser.run(seen)) != (wanted := known()):
        if time.monotonic() - begin > PATIENCE:
            expect(what, found, wanted)
        time.sleep(0.1)


def press(key, code):
    for kind in "keyDown", "keyUp":
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                     **({"text": "\r"} if key == "Enter" and kind == "keyDown" else {}))


browser = Browser(FOLDER)
first = url("web")
browser.look(1280)
browser.open(first)
browser.wait(f"document.querySelectorAll('tr.job').length === {5 if OTHER else 4}", "the jobs")
expect("the code in the address", browser.run("location.hash"), "")
expect("languages", browser.run("document.documentElement.lang"), "en")
headings = browser.run("[...document.querySelectorAll('table')][0].tHead.innerText")
for word in "Job", "Held, of limit", "On the host", "Share held, of set", "Step":
    assert word in headings, headings
assert "its limit of 40.0 MiB is used up" in browser.run(f"({row('resnet')}).innerText")
expect("jobs that have ended", browser.run("document.getElementById('ended-text').textContent"), "ended jobs (1)")
browser.run("document.getElementById('ended').click()")
browser.wait("!!" + row("ended"))
browser.run("document.getElementById('ended').click()")

# Each job has a row with what stat knows of it.
CELLS = "r => [...['button', '.who', '.held', '.hosted', '.share'].map(name => r.querySelector(name).textContent), r.querySelector('.reason').textContent !== '']"


def cells(job, device):
    """Returns the text of a job's row."""
    host, limit, charged = device["host_charged"], size(device["limit_set"]), size(device["device_charged"])
    held = charged.split()[0] if charged.split()[1] == limit.split()[1] else charged
    return [job["job"], job["user"] + (f" \u00b7 {job['labels']}" if job["labels"] else ""), f"{held} of {limit}", size(host) if host else "\u2013",
            f"of {device['share_set'] // 1000} %", bool(host)]


def rows_of(names):
    return [cells(job, job["devices"][0]) for job in stat()["jobs"] if job["job"] in names]


for name in "resnet", "bert":
    agrees(f"the row of {name}", f"(c => (c[4] = c[4].replace(/^.* (?=of )| \\*$/g, ''), c.map(t => typeof t === 'string' ? t.replaceAll('\u00a0', ' ') : t)))(({CELLS})({row(name)}))",
           lambda: rows_of([name])[0])
browser.wait(f"/^~?[0-9.]+ % of 60 %/.test(({row('resnet')}).querySelector('.share').textContent.replaceAll('\u00a0', ' '))", "a share held")
browser.wait(f"/^[0-9.]+ m?s$/.test(({row('resnet')}).querySelector('.step').textContent.replaceAll('\u00a0', ' '))", "the time of a step")

# Each GPU has a bar: the memory of each job and of programs without Spillway. The rest is free.
PARTS = "[...document.querySelector('.bar.main').children].map(s => s.title.replaceAll('\u00a0', ' ')).sort()"


def parts():
    """Returns the titles of the bar's parts."""
    node = stat()
    held = {job["job"]: job["devices"][0]["device_charged"] for job in node["jobs"] if job["state"] == "running"}
    others = node["gpus"][0]["device_used"] - sum(held.values())
    return sorted([f"{name}: {size(bytes)}" for name, bytes in held.items()] + [f"programs without Spillway: {size(others)}"])


agrees("the parts of the bar", PARTS, parts)
WIDTHS = "[...document.querySelector('.bar.main').children].reduce((sum, s) => sum + parseFloat(s.style.width), 0)"
assert 10 < browser.run(WIDTHS) < 100, browser.run(WIDTHS)
told = browser.run("document.querySelector('.figures').textContent.replaceAll('\u00a0', ' ')")
assert re.fullmatch(r"[0-9.]+ MiB held \u00b7 [0-9.]+ MiB others( \u00b7 [0-9.]+ MiB lent)? \u00b7 [0-9.]+ MiB free of 288 MiB", told), told

# A limit changes, and the page shows it by the second look after that.
browser.run("window.looks = 0; const of = window.fetch; window.fetch = (...a) => { if (a[0].endsWith('/stat')) looks++; return of(...a); }; 0")
spillway("set", "resnet", "--memory", "56MiB")
before = browser.run("looks")
_, took = browser.wait(f"({row('resnet')}).innerText.includes('56.0')", "the new limit")
looks = browser.run("looks") - before
print(f"a new limit is shown {took:.2f} s after 'set' has ended, with look {looks}")
assert looks <= 3, looks

# By keys alone: the job's name is a button that opens its curves and events.
browser.run(f"({row('bert')}).querySelector('button').focus()")
press("Enter", 13)
expect("expanded", browser.run("document.activeElement.getAttribute('aria-expanded')"), "true")
browser.wait("document.querySelectorAll('.events tbody tr').length > 0", "events")
browser.wait("document.querySelectorAll('figure path').length >= 3", "curves")
press("Tab", 9)
browser.run("document.querySelector('input[type=range]').focus()")
press("ArrowLeft", 37)
press("ArrowLeft", 37)
command, _ = browser.wait("document.querySelector('.limitbox code').textContent")
assert re.fullmatch(r"spillway set bert --memory 9[0-9]MiB", command), command
browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
browser.run("document.querySelector('.copy').click()")
expect("what the copying says", browser.wait("document.querySelector('.result').textContent")[0], "Copied.")
expect("the clipboard", browser.run("navigator.clipboard.readText()"), command)
expect("buttons that change", browser.run("[...document.querySelectorAll('.set, .hold')].filter(b => !b.hidden).length"), 0)

# Where the job was measured a dragged limit has its price.
browser.wait("/^predicted step /.test(document.querySelector('.price').textContent)", "a prediction")

# Root's page has other users' jobs in full: the label, the events, and the price of a limit.
EVIL = "<img src=x onerror=window.owned=1>\"'\ufffd"
if OTHER:
    label = browser.run(f"({row('theirs')}).querySelector('.who').textContent")
    assert label.startswith(f"{OTHER} \u00b7 {EVIL}"), label
    browser.run(f"({row('theirs')}).querySelector('button').click()")
    theirs = f"({row('theirs')}).nextElementSibling"
    browser.wait(f"{theirs}.querySelectorAll('.events tbody tr').length > 0", "events of another user's job")
    browser.wait(f"{theirs}.querySelectorAll('figure path').length >= 3", "curves of another user's job")
    browser.run(f"const r = {theirs}.querySelector('input[type=range]'); r.value = 64; r.dispatchEvent(new Event('input')); 0")
    browser.wait(f"/^predicted step /.test({theirs}.querySelector('.price').textContent)", "a prediction for another user's job")
    text = browser.run(f"{theirs}.querySelector('code').textContent")
    assert re.fullmatch(r"spillway set theirs --memory 72MiB", text), text

# The latest refusal, with the limit that refused and the next step.
browser.run(f"({row('refused')}).querySelector('button').click()")
more = f"({row('refused')}).nextElementSibling"
said = browser.wait(f"{more}.querySelector('.refusals').textContent.replaceAll('\u00a0', ' ')", "the refusal")[0]
assert said.endswith(": refused 8.00 MiB: host memory is used up (limit 10.0 MiB, 6.00 MiB too little). Raise it with --host-memory. "
                     "For example: spillway set refused --host-memory 16MiB"), said
assert re.search(r"\b[0-9]+ refused: its host memory is used up", browser.run(f"({row('refused')}).innerText"))
browser.wait(f"{more}.querySelector('.events').innerText.replaceAll('\u00a0', ' ').includes('8.00 MiB refused: its host memory is used up (limit 10.0 MiB)')", "its event")
browser.run(f"({row('refused')}).querySelector('button').click()")

# The notebook lends memory while another job needs it. Its part of the host is hatched.
spillway("set", "bert", "--memory", "unlimited")
browser.wait(f"/^([0-9.]+ MiB )?lent to other jobs: no data is lost, and its next call brings it back$/.test(({row('notebook')}).querySelector('.reason').textContent)", "lent memory")
browser.wait("[...document.querySelectorAll('.bar.host .seg.borrowed')].some(s => s.title.startsWith('notebook, lent: '))", "lent memory in the bar")
browser.wait("/ MiB lent /.test(document.querySelector('.figures').textContent.replaceAll('\u00a0', ' '))", "lent memory of the GPU")
browser.wait("document.querySelector('.legend').innerText.includes('lent: on the host while other jobs use its place')", "a legend of lent memory")
spillway("set", "bert", "--memory", "96MiB")

# A mouse opens a row, too.
browser.run(f"({row('resnet')}).scrollIntoView({{block: 'center'}})")
box = browser.run(f"(b => [b.x + b.width / 2, b.y + b.height / 2])(({row('resnet')}).querySelector('.held').getBoundingClientRect())")
for kind in "mousePressed", "mouseReleased":
    browser.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)
browser.wait(f"({row('resnet')}).nextElementSibling.classList.contains('more')", "the job that was clicked")
browser.run(f"({row('resnet')}).querySelector('button').click()")

# A screen reader has a table with its heads, the bar in words, and the limit as it is dragged.
tree = [node for node in browser.call("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]


def named(role):
    return [node.get("name", {}).get("value", "").replace("\u00a0", " ") for node in tree if node["role"]["value"] == role]


assert "Jobs on this GPU" in named("table"), named("table")
assert {"Job", "Held, of limit", "On the host", "Share held, of set", "Step", "Steps", "GPU time", "Time", "Event"} <= set(named("columnheader")), named("columnheader")
assert any("resnet" in name for name in named("rowheader")) and "Limit" in named("slider"), (named("rowheader"), named("slider"))
images = named("image") + named("img")
assert any(re.match(r"Memory of GPU 0: .*resnet [0-9.]+ MiB.*programs without Spillway .*free [0-9.]+ M?i?B", name) for name in images), images
assert any(re.match(r"GPU time in the last ten minutes, now [0-9.]+ %", name) for name in images), images
assert any(re.match(r"Memory in the last ten minutes, now [0-9.]+ MiB on the GPU", name) for name in images), images
assert len(named("status")) >= 2, named("status")

# Other users' text is text.
text = browser.run("document.querySelector('tr.more').innerText")
assert f"{EVIL} --scale" in text, text
expect("elements of other users", browser.run("document.querySelectorAll('img, main script, main a').length"), 0)
expect("scripts of other users", browser.run("typeof window.owned"), "undefined")
assert "\u202e" not in browser.run("document.body.innerText")
refused = browser.run("(() => { try { document.body.innerHTML = '<p>'; return 'taken'; } catch (e) { return e.name; } })()")
expect("markup from text", refused, "TypeError")

# Motion stops where the user asks for that.
browser.look(1280, still=False)
assert browser.run("getComputedStyle(document.querySelector('.seg')).transitionDuration") != "0s"
browser.look(1280, still=True)
expect("motion", browser.run("getComputedStyle(document.querySelector('.seg')).transitionDuration"), "0s")

# Pictures, and what axe finds: at the widths of a screen, a tablet and a phone.
with open(AXE, encoding="utf-8") as file:
    browser.run(file.read() + "; 0")
for width, height, dark in (1280, 900, False), (820, 1000, False), (390, 844, False), (1280, 900, True), (390, 844, True):
    browser.look(width, height, dark)
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    browser.picture(f"{PICTURES}/{width}{'-dark' if dark else ''}.png")
    across = browser.run("document.documentElement.scrollWidth")
    assert across <= width, f"{width}: the page is {across} wide"
    table = browser.run("(s => s.scrollWidth - s.clientWidth)(document.querySelector('.scroll'))")
    assert table <= 0, f"{width}: the table is {table} too wide"
    found = browser.run("axe.run().then(r => r.violations.map(v => [v.impact, v.id, v.nodes.map(n => n.html + n.failureSummary)]))")
    expect(f"what axe finds at {width}{' dark' if dark else ''}", found, [])

# The URL that was used opens nothing more.
browser.run("sessionStorage.clear()")
browser.open(first)
browser.wait("!document.getElementById('gate').hidden", "the question for a code")
assert "used" in browser.wait("document.getElementById('gate-why').textContent")[0]

# With control a change is confirmed, made, and seen.
browser.look(1280)
browser.open(url("control"))
browser.wait("!!" + row("resnet"))
browser.run(f"({row('resnet')}).querySelector('button').click()")
browser.wait("!!document.querySelector('input[type=range]')")
browser.run("const r = document.querySelector('input[type=range]'); r.value = 64; r.dispatchEvent(new Event('input')); 0")
browser.run("document.querySelector('.set').click()")
assert "72MiB" in browser.wait("document.getElementById('ask').open && document.getElementById('ask-what').textContent")[0]
expect("a change that is not confirmed", json.loads(spillway("stat", "--json", "resnet"))["devices"][0]["limit_set"], 56 << 20)
browser.run("document.getElementById('ask-yes').click()")
browser.wait("document.querySelector('.result').textContent.startsWith('gpu 0: limit 72.0 MiB')", "what set says")
browser.wait(f"({row('resnet')}).innerText.includes('72.0')", "the new limit")
browser.wait("document.querySelector('.events').innerText.includes('by the page: set --memory=72MiB')", "the page as the cause of the change")
browser.wait("/settings changed by [^ ]+, through the page/.test(document.querySelector('.events').innerText)", "the cause in the job's own events")
for word, share, event in ("Pause", 0, "paused"), ("Resume", 60000, None):
    browser.wait(f"document.querySelector('.hold').textContent.startsWith('{word}')", word)
    browser.run("document.querySelector('.hold').click()")
    expect("the question", browser.run("document.getElementById('ask-what').textContent"), f"{word} resnet?")
    browser.run("document.getElementById('ask-yes').click()")
    browser.wait(f"document.querySelector('.events').innerText.includes('by the page: {word.lower()}')", f"the page as the cause of a {word.lower()}")
    expect(f"share after {word}", stat("resnet")["devices"][0]["share_set"], share)
    if event:
        browser.wait(f"({row('resnet')}).querySelector('.pill').textContent === '{event}'", event)
        browser.wait("document.querySelector('.facts').textContent.startsWith('paused: spillway resume resnet lets it go on')", "the command that resumes")
if OTHER:
    browser.run(f"({row('theirs')}).querySelector('button').click()")
    browser.wait(f"!!{theirs}.querySelector('input[type=range]')")
    browser.run(f"const s = {theirs}.querySelector('input[type=range]'); s.value = 56; s.dispatchEvent(new Event('input')); 0")
    browser.run(f"{theirs}.querySelector('.set').click()")
    browser.run("document.getElementById('ask-yes').click()")
    browser.wait(f"({row('theirs')}).innerText.includes('63.0')", "the new limit of another user's job")

asked = {event["params"]["request"]["url"] for event in browser.events if event["method"] == "Network.requestWillBeSent"}
outside = [one for one in asked if not re.match(r"http://127\.0\.0\.1:\d+/|data:image/svg|about:", one)]
expect("requests to elsewhere", outside, [])
wrong = [event["params"] for event in browser.events if event["method"] == "Runtime.exceptionThrown" or
         event["method"] == "Log.entryAdded" and event["params"]["entry"]["source"] not in ("network",)]
wrong = [one for one in wrong if "TrustedHTML" not in json.dumps(one)]
expect("errors of the page", wrong, [])

# README's moving picture shows its last frame alone where the user asks for reduced motion.
browser.open(f"file://{os.path.abspath('tests/bench/top.svg')}")
browser.wait("document.querySelectorAll('g').length > 10", "frames")
SEEN = "[...document.querySelectorAll('g')].map((g, i) => getComputedStyle(g).visibility === 'visible' ? i : -1).filter(i => i >= 0)"
browser.look(900, still=True)
expect("frames without motion", browser.run(SEEN), [browser.run("document.querySelectorAll('g').length") - 1])
browser.look(900, still=False)
browser.wait(f"({SEEN}).join() === '0'", "the first frame, with motion")
browser.close()


# A hundred thousand requests leave the exporter's memory as it was.
port = int(re.search(r":(\d+)/", url("exporter")).group(1))
code = url("exporter").split("#")[1]


def ask(request):
    """Returns the answer and the seconds to its first byte."""
    with socket.create_connection(("127.0.0.1", port), 60) as s:
        begin = time.monotonic()
        s.sendall(request)
        got = s.recv(1 << 17)
        first_byte = time.monotonic() - begin
        while part := s.recv(1 << 17):
            got += part
        return got, first_byte


def request_of(path, method="GET", secret=""):
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\r\n".encode()


token = json.loads(ask(request_of("/api/v1/session", "POST", code))[0].split(b"\r\n\r\n", 1)[1])["token"]
job = json.loads(spillway("stat", "--json", "bert"))
paths = ["/", "/api/v1/stat", f"/api/v1/history?job=bert@{job['token']}", "/api/v1/none", "/none"]
requests = [request_of(path, secret=token) for path in paths]
METRICS = request_of("/metrics")
times = [ask(requests[0])[1] for _ in range(51)]
print(f"first byte of the page: {1000 * statistics.median(times):.2f} ms, at most {1000 * max(times):.2f} ms")
assert min(times) <= 0.05, times  # the median tells of the machine's load, too


def resident():
    with open(f"/proc/{SERVER}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


for i in range(2000):
    ask(requests[i % len(requests)] if i % 50 else METRICS)
before = resident()
begin = time.monotonic()
for i in range(REQUESTS):
    ask(requests[i % len(requests)] if i % 50 else METRICS)
print(f"memory: {before >> 10} KiB, {resident() - before >> 10} KiB more after {REQUESTS} requests in {time.monotonic() - begin:.0f} s")
assert resident() - before < 1 << 20, "memory grows"
