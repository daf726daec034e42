#!/bin/sh
# SPDX-License-Identifier: MIT
# A driver is not linked to itself, looks its own functions up by name, or is called back while it
# is loaded or initialised. Its calls of its own functions are no calls of the program. Nothing is
# counted twice, nothing waits for itself.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

build_c() { # build_c ARGUMENTS...
	# shellcheck disable=SC2086 # CC may hold several words
	${CC:-cc} -D_GNU_SOURCE -Wall -Werror "$@" -ldl || fail "not built: $*"
}
build_c ${SANITIZER:+"-fsanitize=$SANITIZER"} -o "$scratch/reentry" tests/e2e/reentry.c
build_c -shared -fPIC -o "$scratch/injection.so" tests/e2e/injection.c
build_c -shared -fPIC -DINSIDE_CALLS -o "$scratch/inside.so" tests/e2e/injection.c
for level in 0 2; do # with optimisation the inner call is a jump
	build_c "-O$level" -shared -fPIC -o "$scratch/loose$level.so" tests/e2e/tiny_driver.c
	build_c "-O$level" -shared -fPIC -Wl,-Bsymbolic -o "$scratch/symbolic$level.so" tests/e2e/tiny_driver.c
done

# run NAME DRIVER [EARLY]: what it has at most is the limit if each call counts once
run() {
	name=$1 driver=$2
	shift 2
	out=$(SPILLWAY_DRIVER=$driver timeout $patience "$spillway" run --quiet --name "$name" --memory 12MiB \
		"$scratch/reentry" "$@" 2>"$scratch/err") ||
		fail "$name: exit status $?: $out $(cat "$scratch/err")"
	json=$("$spillway" stat "$name" --json)
	has "$name" "$json" '"launches":10,'
	has "$name" "$json" '"device_peak":12582912,'
	has "$name" "$json" '"spills":0,'
}
done_once="context 0/1, alloc 0/4, free 0/1, module 0/1, launch 0/10"

same "the driver alone" "init 0/1, $done_once, constructor 0/-1, news 4711" \
	"$(mkdir "$scratch/alone" && ln -s "$scratch/loose0.so" "$scratch/alone/libcuda.so.1" &&
		LD_LIBRARY_PATH=$scratch/alone "$scratch/reentry")"
for level in 0 2; do
	loose=$scratch/loose$level.so symbolic=$scratch/symbolic$level.so
	if [ -z "${SANITIZER:-}" ]; then # a sanitizer refuses RTLD_DEEPBIND, with which such a driver is opened
		run "linked-$level" "$loose"
		same "its names bound to itself" "init 0/1, $done_once, constructor 0/-1, news 4711" "$out"

		# Opened before, by a name that no driver has, it is bound to what stands before it:
		# to us.
		run "early-$level" "$loose" "$loose"
		same "loaded before us" "init 0/1, $done_once, constructor 0/-1, news 4711" "$out"
	fi

	TINY_REACH=name
	export TINY_REACH
	run "named-$level" "$symbolic"
	same "by name" "init 0/1, $done_once, constructor 0/-1, news 4711" "$out"
	unset TINY_REACH

	# Before it is there, it cannot be called.
	TINY_CONSTRUCTOR=1
	export TINY_CONSTRUCTOR
	run "constructor-$level" "$symbolic"
	same "from its constructor" "init 0/1, $done_once, constructor 0/3003, news 4711" "$out"
	unset TINY_CONSTRUCTOR

	# Called again in the midst of cuInit, it goes on as it would alone; the job begins when it
	# is done.
	TINY_INJECTION=$scratch/injection.so
	export TINY_INJECTION
	run "injected-$level" "$symbolic"
	same "an injection library" "injection: cuInit 0 version 14000 context 0 alloc 0
init 0/2, context 0/2, alloc 0/5, free 0/1, module 0/1, launch 0/10, constructor 0/-1, news 4711" "$out"
	unset TINY_INJECTION
done

# A profiler's own calls in the midst of the program's are calls like others: counted, once, and
# nobody waits for himself, held back or not. Seventeen of the program's calls each have an
# allocation of the driver's, a launch and a free in them.
for share in 100 90; do
	out=$(TINY_INJECTION=$scratch/inside.so SPILLWAY_DRIVER=$scratch/symbolic0.so timeout $patience "$spillway" run --quiet \
		--name "inside-$share" --memory 16MiB --share $share "$scratch/reentry" 2>"$scratch/err") ||
		fail "inside calls, share $share: exit status $?: $out $(cat "$scratch/err")"
	same "inside calls" "injection: cuInit 0 version 14000 context 0 alloc 0
init 0/2, context 0/2, alloc 0/22, free 0/18, module 0/1, launch 0/27, constructor 0/-1, news 4711" "$out"
	json=$("$spillway" stat "inside-$share" --json)
	has "inside calls" "$json" '"launches":27,'
	has "inside calls" "$json" "\"device_peak\":$((14 * 1048576)),"
done

# A function that is newer than our table is the driver's own, said once, at level debug; a newer
# form of one where Spillway acts is a warning.
SPILLWAY_LOG=debug SPILLWAY_DRIVER=$scratch/symbolic2.so LD_PRELOAD=$shim "$scratch/reentry" >"$scratch/out" 2>"$scratch/err"
has "unknown functions work" "$(cat "$scratch/out")" "news 4711"
for function in cuTinyCount cuTinyNews; do
	same "lines about $function" 1 "$(grep -c "$function" "$scratch/err")"
	has "the line" "$(grep "$function" "$scratch/err")" "unknown to Spillway, passed through"
done
SPILLWAY_DRIVER=$scratch/symbolic2.so LD_PRELOAD=$shim "$scratch/reentry" >"$scratch/out" 2>"$scratch/err"
same "lines otherwise" 1 "$(wc -l <"$scratch/err")"
has "the line" "$(cat "$scratch/err")" \
	"warning: cuGetProcAddress(cuMemAlloc): the driver has a newer form than Spillway knows"
