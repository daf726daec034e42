#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway set --save: text that people wrote in the file stays, to the byte.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
file=$TMPDIR/job.ini

# becomes WHAT: the file is the text on standard input
becomes() {
	cat >"$TMPDIR/expected"
	cmp -s "$TMPDIR/expected" "$file" || fail "$1: $(diff "$TMPDIR/expected" "$file")"
}

start_job bert
cat >"$file" <<'END'
# The team's file; memory = 1M is not this line.
[job]
name = bert ; after the model

; all GPUs
[gpu]
share_window=50ms
  ; memory = 3G: once
memory	=  8GiB   ; of 80

# the slow one
[gpu GPU-00000000-0000-0000-0000-000000000001]
share = 70

[gpu 3]
memory = 9G
END
chmod 640 "$file"
ln -s job.ini "$TMPDIR/link.ini"
expect 0 "$spillway" set bert --memory 512MiB --host-memory 1G --save "$TMPDIR/link.ini"
says "$out" '^gpu 0: limit 512 MiB'
expect 0 "$spillway" set bert --save -
says "$err" '^gpu 0: limit 512 MiB'
says "$out" '^memory = '
beside=$(grep -v -e '^\[gpu\]$' -e '^[a-z_]* = ' "$out" || true)
[ -z "$beside" ] || fail "beside what is saved: $beside"
becomes 'a limit in its place, another at the end of its section' <<'END'
# The team's file; memory = 1M is not this line.
[job]
name = bert ; after the model

; all GPUs
[gpu]
share_window=50ms
  ; memory = 3G: once
memory	=  512MiB   ; of 80
host_memory = 1G

# the slow one
[gpu GPU-00000000-0000-0000-0000-000000000001]
share = 70

[gpu 3]
memory = 9G
END
[ "$(stat -c %a "$file")" = 640 ] || fail 'the mode of the file has changed'
[ -h "$TMPDIR/link.ini" ] || fail 'the link has become a file'

# Sections: one that is there in other letters, one that is not.
expect 0 "$spillway" set bert --share 30 --limit-gpu gpu-00000000-0000-0000-0000-000000000001
expect 0 "$spillway" set bert --share 20 --limit-gpu 0 --save "$file"
says "$file" '^share = 30$'
[ "$(tail -n 3 "$file")" = "$(printf '\n[gpu 0]\nshare = 20')" ] || fail "end: $(tail -n 4 "$file")"
[ "$(grep -c '^\[gpu' "$file")" -eq 4 ] || fail 'expected four sections of GPUs'

# Alone it saves what the job was given; the result starts the next one.
cp "$file" "$TMPDIR/before"
expect 0 "$spillway" set bert --save "$file"
cmp -s "$file" "$TMPDIR/before" || fail 'saving again changes the file'
expect 0 "$spillway" set bert --save "$TMPDIR/new.ini"
[ "$(stat -c %a "$TMPDIR/new.ini")" = 644 ] || fail 'mode of a new file'
says "$TMPDIR/new.ini" '^memory = 512MiB$'
expect 0 "$spillway" run --config "$TMPDIR/new.ini" true

# Of a paused job the share it will have again.
expect 0 "$spillway" pause --evict bert
expect 0 "$spillway" set bert --save "$file"
cmp -s "$file" "$TMPDIR/before" || fail "paused: $(diff "$TMPDIR/before" "$file")"
expect 0 "$spillway" set bert --share 25 --save "$file"
says "$out" '^bert is paused'
says "$file" '^share = 25$'
says_not "$file" '^share = 0$'

# Ends of lines as they are, and a last line without one; the mark at the beginning.
printf '\357\273\277[gpu]\r\nmemory = 1G\r\n[job]\r\nname = x' >"$file"
expect 2 "$spillway" set bert --limit-gpu 7 --save "$file"
expect 0 "$spillway" set bert --save "$file"
says "$file" "$(printf '^\357\273\277\\[gpu\\]\r$')"
[ "$(grep -c "$(printf '\r$')" "$file")" -eq "$(wc -l <"$file")" ] || fail 'ends of lines are mixed'
says "$file" '^memory = 512MiB'
says "$file" '^name = x'

# A file that is wrong, or would be, stays as it is; nothing is left beside it. The limits hold
# nevertheless.
echo 'nonsense' >"$file"
expect 1 "$spillway" set bert --memory 600MiB --save "$file"
says "$err" '^spillway: .*/job\.ini:1: '
says "$out" '^gpu 0: limit 600 MiB'
[ "$(cat "$file")" = nonsense ] || fail 'a bad file was changed'
printf '[gpu]\nmemory = 8G ; %s\n' "$(printf '%0180d' 0)" >"$file"
cp "$file" "$TMPDIR/before"
expect 1 "$spillway" set bert --memory 600MiB --save "$file"
says "$err" '^spillway: .*/job\.ini: left as it is: with these limits it would be wrong: .*197'
cmp -s "$file" "$TMPDIR/before" || fail 'a file that would be wrong was changed'
[ -z "$(find "$TMPDIR" -name 'job.ini.*')" ] || fail 'something is left beside the file'
expect 1 "$spillway" set bert --save "$TMPDIR/nowhere/job.ini"
says "$err" '^spillway: .*/nowhere/job\.ini: No such file or directory$'
expect 1 "$spillway" set bert --save "$TMPDIR"
expect 2 "$spillway" set bert --save ''
finish
