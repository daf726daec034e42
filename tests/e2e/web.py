# SPDX-License-Identifier: MIT
"""web.py FOLDER PID: asks the servers that test_tool_web.sh has started; PID is that of `web`."""

import base64
import hashlib
import http.client
import json
import os
import re
import resource
import socket
import sys
import time

FOLDER, SERVER = sys.argv[1], int(sys.argv[2])


def said(name, pattern=r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]{32})$"):
    """Returns what the pattern finds in a server's words, the newest."""
    with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
        return re.findall(pattern, file.read(), re.M)[-1]


class Local(http.client.HTTPConnection):
    """A connection to a socket file."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.host)


def ask(port, path, method="GET", token=None, **headers):
    """Returns status, headers and body."""
    connection = (Local if isinstance(port, str) and "/" in port else http.client.HTTPConnection)(*(
        (port,) if "/" in str(port) else ("127.0.0.1", int(port))), timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", headers.pop("host", f"127.0.0.1:{port}" if "/" not in str(port) else "localhost"))
    if token:
        connection.putheader("Authorization", f"Bearer {token}")
    for name, value in headers.items():
        connection.putheader(name.title(), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def status(*arguments, **names):
    return ask(*arguments, **names)[0]


def data(*arguments, **names):
    """Returns the document of an answer that is to be 200."""
    code, headers, body = ask(*arguments, **names)
    assert code == 200 and headers["Content-Type"] == "application/json; charset=utf-8", (code, body)
    assert headers["Cache-Control"] == "no-store" and "Set-Cookie" not in headers
    document = json.loads(body)
    assert document["schema"] == 1
    return document


def session(name):
    """Returns port and token of a server."""
    port, code = said(name)
    answer = data(port, "/api/v1/session", "POST", code)
    assert status(port, "/api/v1/session", "POST", code) == 401, "a code works twice"
    assert said(name) != (port, code), "no new code is said"
    return port, answer["token"]


# The page: its script and style are those that its policy names, and it asks for nothing else.
port, code = said("web")
begin = time.monotonic()
first, headers, page = ask(port, "/")
print(f"page: {len(page)} bytes in {1000 * (time.monotonic() - begin):.1f} ms")
assert first == 200 and len(page) <= 65536 and headers["Content-Type"] == "text/html; charset=utf-8"
policy = headers["Content-Security-Policy"]
for tag, rule in (b"script", "script-src"), (b"style", "style-src"):
    parts = re.findall(b"<" + tag + b">(.*?)</" + tag + b">", page, re.S)
    assert len(parts) == 1 and page.count(b"<" + tag) == 1, tag
    digest = base64.b64encode(hashlib.sha256(parts[0]).digest()).decode()
    assert f"{rule} 'sha256-{digest}';" in policy, (tag, policy)
assert policy.startswith("default-src 'none';") and "unsafe" not in policy and "frame-ancestors 'none'" in policy
assert not re.search(rb"\son[a-z]+=|\sstyle=|src=|@import|url\(", page), "a handler or a source beside the policy"
assert set(re.findall(rb"https?://[a-z0-9./]+", page)) == {b"http://www.w3.org/2000/svg"}
for name in "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "document.cookie", "localStorage":
    assert name.encode() not in page, name
assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"

# Data is for the token alone.
for path in "stat", "session", "history?job=one", "events?job=one", "what-if?job=one", "set?job=one", "none":
    for token in None, code, "0" * 32, "":
        assert status(port, f"/api/v1/{path}", token=token) == 401, path
port, token = session("web")
node = data(port, "/api/v1/stat", token=token)
jobs = {job["job"]: job for job in node["jobs"]}
assert set(jobs) == {"one", "two"} and jobs["one"]["devices"][0]["device_charged"] == 12582912
assert jobs["one"]["labels"].startswith("team=<img") or jobs["one"]["labels"] == "", jobs["one"]["labels"]
with open(f"{FOLDER}/stat", "wb") as file:
    file.write(ask(port, "/api/v1/stat", token=token)[2])
settings = data(port, "/api/v1/session", token=token)
assert settings["control"] is False and "token" not in settings
one = "one@" + jobs["one"]["token"]
assert status(port, "/api/v1/none", token=token) == 404 and status(port, "/metrics", token=token) == 404
assert status(port, "/api/v1/stat", "POST", token) == 405 and status(port, "/", "POST") == 405
for query in "", "?job=", "?job=a%20b", "?job=%00", "?job=%zz", "?job=a%", "?jobs=one", "?job=" + "x" * 400:
    assert status(port, "/api/v1/history" + query, token=token) == 400, query
while not (history := data(port, "/api/v1/history?job=" + one, token=token))["devices"]:
    time.sleep(0.1)
assert history["devices"][0]["device_charged"][-1] == 12582912 and history["interval_ns"] == 2000000000
assert data(port, "/api/v1/history?job=one@0000", token=token)["devices"] == []
for path in f"events?job={one}", "events?job=none", "what-if?job=none", "events?job=--help", "events?job=../x":
    code, _, body = ask(port, "/api/v1/" + path, token=token)
    assert code in (200, 409) and json.loads(body)["schema"] == 1, (path, code, body)
    assert code == 409 or path.startswith("events?job=one")

for job in "../x", "/etc/passwd", ".x", "x/y@0", "../x@0123456789abcdef":
    assert status(port, f"/api/v1/what-if?job={job}", token=token) == 400, job

# Another name than the machine's points anywhere (DNS rebinding); another origin is another page.
for host in "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "[::1", "[::1]x", "1.2.3", "":
    assert status(port, "/", host=host) == 403, host
    assert status(port, "/api/v1/stat", token=token, host=host) == 403, host
for host in "localhost", "LOCALHOST:1234", "[::1]:80", "10.0.0.7", os.uname().nodename:
    assert status(port, "/", host=host) == 200 == status(port, "/api/v1/stat", token=token, host=host), host
for origin in "http://evil.example", "null", "http://127.0.0.1:1", f"ftp://127.0.0.1:{port}", "http://":
    assert status(port, "/api/v1/stat", token=token, origin=origin) == 403, origin
assert status(port, "/api/v1/stat", token=token, origin=f"http://127.0.0.1:{port}") == 200


def raw(data_of):
    with socket.create_connection(("127.0.0.1", int(port)), 60) as s:
        s.sendall(data_of)
        return int(s.recv(12).split()[1])


assert raw(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n") == 400
assert raw(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n folded\r\n\r\n") == 400
assert raw(b"GET / HTTP/1.1\r\nno header\r\n\r\n") == 400
assert raw(b"GET / HTTP/1.0\r\n\r\n") == 403

# Control is off, and where it is on it needs token, origin and method.
post = {"method": "POST", "origin": f"http://127.0.0.1:{port}"}
assert status(port, f"/api/v1/set?job={one}&memory=1MiB", token=token, **post) == 403
port, token = session("control")
good = f"http://127.0.0.1:{port}"
change = f"/api/v1/set?job={one}&memory=16MiB"
assert data(port, "/api/v1/session", token=token)["control"] is True
assert status(port, change, "POST", origin=good) == 401
assert status(port, change, "POST", token) == 403, "no origin"
assert status(port, change, "POST", token, origin="http://evil.example") == 403
assert status(port, change, "POST", token, origin=good, host="evil.example") == 403
assert status(port, change, "GET", token, origin=good) == 405
assert status(port, f"/api/v1/set?job={one}", "POST", token, origin=good) == 400
assert status(port, "/api/v1/set?job=none&memory=1MiB", "POST", token, origin=good) == 409
assert status(port, f"/api/v1/set?job={one}&memory=much", "POST", token, origin=good) == 409
answer = data(port, change, "POST", token, origin=good)
assert answer["failed"] is False and "limit 16.0 MiB" in answer["said"], answer
# The events of the job name the page as the cause, of changes that were refused, too.
made = [(e["event"], e["through"], e["command"], e["failed"])
        for e in data(port, f"/api/v1/events?job={one}", token=token)["events"] if e["event"] == "change"]
assert made == [("change", "page", "set --memory=much", True), ("change", "page", "set --memory=16MiB", False)], made
assert data(port, "/api/v1/events?job=two", token=token)["events"] == []

# A browser gets the code by a file.
while not os.path.exists(f"{FOLDER}/opened"):
    time.sleep(0.05)
session("open")

# By a socket file no token is asked for, as its mode keeps other users out. Other pages stay out.
local = f"{FOLDER}/socket"
assert set(job["job"] for job in data(local, "/api/v1/stat")["jobs"]) == {"one", "two"}
assert status(local, "/") == 200 and status(local, "/", host="evil.example") == 403
assert status(local, "/api/v1/stat", origin="http://evil.example") == 403
assert status(local, f"/api/v1/set?job={one}&memory=1MiB", "POST", origin="http://localhost") == 403

# An exporter publishes nothing new, unless it is asked to, and then nothing without the token.
plain = said("plain", r"http://127\.0\.0\.1:(\d+)/metrics$")
assert ask(plain, "/")[2].endswith(b'<a href="metrics">Spillway\'s metrics</a>\n')
assert status(plain, "/api/v1/stat") == 404 and status(plain, "/api/v1/session", "POST") == 404
port, token = session("page")
assert b"spillway_processes{" in ask(port, "/metrics", host="anything.example")[2] and status(port, "/") == 200
assert status(port, "/api/v1/stat") == 401 and len(data(port, "/api/v1/stat", token=token)["jobs"]) == 2
assert data(port, "/api/v1/session", token=token)["control"] is False
assert status(port, change, "POST", token, origin=f"http://127.0.0.1:{port}") == 403, "an exporter changes jobs"
port, token = session("one")
assert [job["job"] for job in data(port, "/api/v1/stat", token=token)["jobs"]] == ["one"]
assert status(port, "/api/v1/history?job=two", token=token) == 400 == status(port, "/api/v1/history?job=onetwo", token=token)

# 1,000 connections that say nothing, and 100 that do not read their answer, keep nobody out.
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
port, code = said("web")
token = data(port, "/api/v1/session", "POST", code)["token"]
silent = [socket.create_connection(("127.0.0.1", int(port)), 60) for _ in range(1000)]
slow = [socket.create_connection(("127.0.0.1", int(port)), 60) for _ in range(100)]
for s in slow:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
assert len(data(port, "/api/v1/stat", token=token)["jobs"]) == 2
assert len(os.listdir(f"/proc/{SERVER}/fd")) < 200
for s in silent + slow:
    s.close()


def resident():
    with open(f"/proc/{SERVER}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


# Memory is flat: tests/packages/test_page.sh asks a hundred times as often.
paths = ("/", "/api/v1/stat", "/api/v1/history?job=" + one, "/api/v1/none")
for i in range(200):
    ask(port, paths[i % 4], token=token)
before = resident()
for i in range(1000):
    ask(port, paths[i % 4], token=token)
print(f"memory: {before >> 10} KiB, {resident() - before >> 10} KiB more after 1,000 requests")
assert resident() - before < 512 << 10 or os.environ.get("SANITIZER"), "memory grows"
