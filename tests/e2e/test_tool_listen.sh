#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway stat --listen: the answers for a scraper, and for other clients.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

for address in '' :9435 9435 localhost:9435 127.0.0.1 127.0.0.1: 127.0.0.1:http 127.0.0.1:65536 127.0.0.1:-1 \
	::1:9435 '[127.0.0.1]:1' '[::1]' 1.2.3:4:5; do
	expect 2 "$spillway" stat --listen "$address"
	says "$err" "^spillway: --listen '.*': expected ADDRESS:PORT in numbers"
done
expect 2 "$spillway" stat --listen 127.0.0.1:0 --format csv
expect 2 "$spillway" stat --listen 127.0.0.1:0 --watch 1
expect 2 "$spillway" stat --listen 127.0.0.1:0 --textfile x
expect 1 "$spillway" stat --listen 192.0.2.1:9435 # of documentation's addresses, so not ours
says "$err" '^spillway: --listen 192\.0\.2\.1:9435: Cannot assign requested address$'

start_job one -m 12582912
"$spillway" stat --listen 127.0.0.1:0 >"$out" 2>"$err" &
server=$!
jobs_started="$jobs_started $server"
wait_for '/metrics$' "$err"
port=$(sed -n 's,^spillway: serving http://127\.0\.0\.1:\([0-9]*\)/metrics$,\1,p' "$err")
[ -n "$port" ] || fail 'the address is not said'
expect 1 "$spillway" stat --listen "127.0.0.1:$port"
says "$err" 'Address already in use$'

PYTHONPATH=tests/e2e PYTHONDONTWRITEBYTECODE=1 python3 - "$port" "$server" >"$out" 2>"$err" <<'END' || fail 'see above'
import http.client, os, socket, sys, time
import exposition

port, server = int(sys.argv[1]), int(sys.argv[2])

def descriptors():
    return len(os.listdir('/proc/%d/fd' % server))

at_first = descriptors()

def connect():
    return socket.create_connection(('127.0.0.1', port), 20)

def ask(data, end=False):
    """What comes back for these bytes, until the server ends; status and the rest."""
    s = connect()
    s.sendall(data)
    if end:
        s.shutdown(socket.SHUT_WR)
    got = b''
    while part := s.recv(65536):
        got += part
    s.close()
    return int(got.split(b' ')[1]) if got else None, got

def scrape():
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=20)
    c.request('GET', '/metrics')
    r = c.getresponse()
    assert r.status == 200 and r.getheader('Content-Type') == 'text/plain; version=0.0.4; charset=utf-8'
    return exposition.parse(r.read())

assert scrape()['spillway_processes'][2] == {(('spillway_job', 'one'), ('user', os.popen('id -un').read().strip())): 1.0}

get = b'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'
assert ask(get)[0] == 200 and ask(b'GET /metrics?a=b HTTP/1.0\r\n\r\n')[0] == 200
status, answer = ask(b'GET / HTTP/1.1\r\n\r\n')
assert status == 200 and b'href="metrics"' in answer, answer
assert ask(b'GET /none HTTP/1.1\r\n\r\n')[0] == 404
assert ask(b'GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n')[0] == 404
for method in b'POST', b'get', b'':
    status, answer = ask(method + b' /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello')
    assert status == 405 and b'\r\nAllow: GET, HEAD\r\n' in answer, answer
for line in b'GET /metrics', b'GET', b'GET /metrics FTP/1', b'GET  /metrics HTTP/1.1', b'\x16\x03\x01', b'':
    assert ask(line + b'\r\n\r\n')[0] == 400, line
assert ask(b'GET /metrics HTTP/1.1\r\nX: ' + b'x' * 5000 + b'\r\n\r\n')[0] == 431
for path, expected in (b'/metrics', 200), (b'/', 200), (b'/none', 404):
    status, answer = ask(b'HEAD ' + path + b' HTTP/1.1\r\n\r\n')
    assert status == expected and b'\r\nContent-Length: ' in answer and answer.endswith(b'\r\n\r\n'), answer
assert ask(b'GET /metr', end=True)[0] is None

def is_open(s):
    s.setblocking(False)
    try:
        return s.recv(1) != b''
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
    finally:
        s.settimeout(20)

# However many say nothing, who asks is answered while they are still waited for; and many at once
# are all answered.
for silent_ones in 16, 100, 500:
    silent = [connect() for _ in range(silent_ones)]
    half = connect()
    half.sendall(get[:-4])
    many = [connect() for _ in range(20)]
    for s in many:
        s.sendall(get)
    for s in many:
        assert s.recv(12) == b'HTTP/1.1 200'
    assert is_open(silent[-1]), 'answered only after %d silent connections had ended' % silent_ones
    if silent_ones > 200:
        # bounded: the oldest have made room
        assert not is_open(silent[0]) and descriptors() < at_first + 200
    half.sendall(get[-4:])
    assert half.recv(12) == b'HTTP/1.1 200', 'one whose request takes its time was dropped before older ones'
    for s in silent[-20:]:
        assert s.recv(1) == b'', 'a silent one is ended'
    for s in many + silent + [half]:
        s.close()

# One that leaves before its answer does no harm.
for _ in range(50):
    s = connect()
    s.sendall(get)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
    s.close()
assert len(scrape()) > 15
tries = 0
while descriptors() > at_first and tries < 1200:
    tries += 1
    time.sleep(0.05)
assert descriptors() == at_first, 'descriptors of ended connections stay open'

# It waits without work.
def ticks():
    return sum(map(int, open('/proc/%d/stat' % server).read().rsplit(')', 1)[1].split()[11:13]))
before = ticks()
time.sleep(0.5)
assert ticks() - before <= 2, 'a busy loop'

# Its memory is flat. long_tool_listen.sh asks 100,000 times.
def resident():
    return int(open('/proc/%d/statm' % server).read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
for _ in range(200):
    ask(get)
requests, before = int(os.environ.get('REQUESTS', '1000')), resident()
for _ in range(requests):
    assert ask(get)[0] == 200
print('memory: %d KiB, %d KiB more after %d requests' % (before >> 10, resident() - before >> 10, requests))
assert resident() - before < 256 << 10 or os.environ.get('SANITIZER'), 'memory grows'
END
cat "$out" # figures
kill "$server"
wait "$server" 2>/dev/null
[ $? -eq 143 ] || fail 'a server sent SIGTERM: expected 143'
finish
