#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway-support(7) against the sources: version, drivers, frameworks, the schema, the versions of
# files and the names of metrics.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
page=tools/man/spillway-support.7.scd

# number FILE NAME: of an enumeration
number() { sed -n "s/.*\b$2 = \([0-9][0-9]*\).*/\1/p" "core/$1" "tools/$1" 2>/dev/null | head -n 1; }
# row NAME: the second cell of a row of the page's tables
row() { sed -n "/^|\[ $1\$/{n;s/^:\[ //p;}" $page; }
# equal THING PAGE SOURCES
equal() { [ -n "$3" ] && [ "$2" = "$3" ] || fail "$1: the page says '$2', the sources '$3'"; }

equal 'the version' "$(sed -n 's/^This page is of version \([0-9.]*\)\. .*/\1/p' $page)" "$("$spillway" --version | sed 's/.* //')"
equal 'the schema' "$(sed -n 's/.* have schema \([0-9]*\)\. .*/\1/p' $page)" "$(number formats/json.h JSON_SCHEMA)"
while read -r file header name; do
	equal "$file" "$(row "$(echo "$file" | tr _ ' ')")" "$(number "$header" "$name")"
done <<'END'
segment state/segment.h SEGMENT_VERSION
page pages/page.h PAGE_VERSION
turn_file pages/turns.h TURNS_VERSION
peer_record peers/peer.h PEER_VERSION
ring rings/ring_layout.h RING_VERSION
handle_of_shared_memory wire/wire.h WIRE_VERSION
list_of_resources wire/wire.h RESOURCES_VERSION
END
equal 'the segment that is read, too' "$(sed -n 's/^:\[ Version \([0-9]*\) is read.*/\1/p' $page)" "$(number state/before.h SEGMENT_VERSION_BEFORE)"
# shellcheck disable=SC2013 # words
for name in $(sed -n '/^\[\[ \*framework\*/,/^$/s/^|\[ //p' $page); do
	equal "$name" "$(row "$name")" "$(sed -n "s/^$name==//p" tests/clients/requirements.txt)"
done
tr '\n' ' ' <$page >"$TMPDIR/line"
equal 'the drivers' "$(sed 's/.*without a GPU: \(R[^o]*\) on x86-64.*/\1/; s/ and / /; s/[R,]/ /g' "$TMPDIR/line" | tr -s ' ' | sed 's/^ //')" \
	"$(sed -n '/^packages=/,/"$/p' tests/e2e/test_real_driver.sh | grep -o '[0-9][0-9]*:' | tr -d ':' | paste -s -d ' ')"
equal 'glibc' "$(sed 's/.*glibc \([0-9.]*\) or newer.*/\1/' "$TMPDIR/line")" "$(sed -n 's/.*manylinux_\([0-9]*\)_\([0-9]*\)_.*/\1.\2/p' tools/rules.mk)"
equal 'cuda.h' "$(sed 's/.*cuda\.h\* of CUDA \([0-9.]*\) or newer.*/\1/' "$TMPDIR/line")" \
	"$(sed -n 's/^wanted=\([0-9][0-9]\)000$/\1.0/p' tools/dev/find-cuda)"
for suite in $(sed 's/.*is run in Debian \(.*\)\. No musl.*/\1/' "$TMPDIR/line" | grep -o '([a-z]*)' | tr -d '()'); do
	grep -qx "source_in $suite" tests/packages/*_source.sh || fail "no test builds the sources in $suite"
done
equal 'compilers' "$(sed -n 's/^Compilers without a warning: gcc 10, \(.*\), clang \(.*\)\.$/\1, \2/p' $page | tr -d ',' | tr ' ' '\n' | sort | paste -s -d ' ')" \
	"$(grep '^build_with ' tests/packages/long_compilers.sh | grep -o '[a-z]*-[0-9]*' | sed 's/.*-//' | sort | paste -s -d ' ')"
expect 0 "$spillway" stat --format prometheus
sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' "$out" | LC_ALL=C sort >"$TMPDIR/metrics"
sed -n '/^# METRICS/,/^# SEE/p' $page | tr -d '\\' | grep -o '\*spillway_[a-z_]*\*' | tr -d '*' | LC_ALL=C sort >"$TMPDIR/named"
diff "$TMPDIR/named" "$TMPDIR/metrics" || fail 'metrics: < on the page, > of the tool; a name that goes is a change for users'
finish
