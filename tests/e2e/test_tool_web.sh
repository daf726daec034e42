#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway web and stat --listen --page: the users that get the page and its data, and the users
# that may change jobs. A browser is the business of tests/packages/test_page.sh.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
SPILLWAY_NODE_DIR=$TMPDIR/node
export SPILLWAY_NODE_DIR
mkdir -m 1777 "$SPILLWAY_NODE_DIR"

expect 2 "$spillway" web one
for port in -1 65536 http ''; do
	expect 2 "$spillway" web --port "$port"
	says "$err" "^spillway: --port '$port': expected 0 to 65535"
done
expect 2 "$spillway" web --socket "$TMPDIR/socket" --port 1
expect 2 "$spillway" web --socket "$TMPDIR/socket" --control
expect 2 "$spillway" stat --page
says "$err" '^spillway: --page: expected --listen'
expect 1 "$spillway" web --socket "$TMPDIR/none/socket"
control=--control
if [ "$(id -u)" -eq 0 ]; then
	expect 2 "$spillway" web --control
	says "$err" '^spillway: --control: expected a user other than root, or --control-as-root'
	control=--control-as-root
fi

SPILLWAY_LABELS='team=<img src=x onerror=alert(1)>"' start_job one -m 12582912
start_job two -m 4194304

# served NAME ARGUMENTS...: a server; what it says is in $TMPDIR/NAME
served() {
	name=$1
	shift
	"$spillway" "$@" >"$TMPDIR/$name" 2>&1 &
	server=$!
	jobs_started="$jobs_started $server"
	wait_for "$ends" "$TMPDIR/$name"
}
ends='#[0-9a-f]\{32\}$'
mkdir "$TMPDIR/bin" "$TMPDIR/runtime"
cat >"$TMPDIR/bin/xdg-open" <<'EOS'
#!/bin/sh
echo called >>"$TMPDIR/opened.calls"
printf '%s\n' "$@" >"$TMPDIR/opened.new"
stat -c %a "$1" >"$TMPDIR/opened.mode"
cp "$1" "$TMPDIR/opened.file"
mv "$TMPDIR/opened.new" "$TMPDIR/opened"
EOS
chmod +x "$TMPDIR/bin/xdg-open"
PATH=$TMPDIR/bin:$PATH
export PATH TMPDIR
served web web
web=$server
XDG_RUNTIME_DIR=$TMPDIR/runtime served open web --open
served control web $control
served page stat --listen 127.0.0.1:0 --page
served one stat --listen 127.0.0.1:0 --page one
ends='/metrics$'
served plain stat --listen 127.0.0.1:0
ends='socket$'
served local web --socket "$TMPDIR/socket"
kill -KILL "$server"
wait "$server" 2>/dev/null
served local web --socket "$TMPDIR/socket"
expect 1 "$spillway" web --socket "$TMPDIR/socket"
says "$err" 'Address already in use$'
[ "$(stat -c %a "$TMPDIR/socket")" = 600 ] || fail 'the socket file is not of mode 0600'

PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/web.py "$TMPDIR" "$web" >"$out" 2>"$err" || fail 'see above'
cat "$out" # figures
if python3 -c 'import jsonschema' 2>/dev/null; then
	PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/schema.py node="$TMPDIR/stat" || fail 'the data of the page is not as stat --json'
fi
"$spillway" stat --json one >"$TMPDIR/changed"
says "$TMPDIR/changed" '"limit_set":16777216,'
says "$TMPDIR/changed" "\"change\":{\"at_ns\":[0-9]*,\"by\":\"$(id -un)\",\"through\":\"page\"}"
expect 0 "$spillway" stat one
says "$out" "^settings: last changed .* by $(id -un), through the page\$"
says "$TMPDIR/control" "^spillway: asked for by the page: set --memory=16MiB -- one@"
says "$TMPDIR/control" '^spillway: changed by the page: gpu 0: limit 16.0 MiB'
says "$TMPDIR/control" "^spillway: refused by the page: spillway: no job"
[ "$(cat "$TMPDIR/opened.calls")" = called ] || fail 'a browser is opened unasked'
says_not "$TMPDIR/opened" '[0-9a-f]{32}'
says "$TMPDIR/opened.file" '#[0-9a-f]{32}"'
says "$TMPDIR/opened.mode" '^600$'
[ -z "$(ls "$TMPDIR/runtime")" ] || fail 'the file for the browser stays once its code is used'
finish
