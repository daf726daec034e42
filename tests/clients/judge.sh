# SPDX-License-Identifier: MIT
# Sourced by the lib.sh of each folder here, after tests/e2e/lib.sh: how a program judges Spillway.
#
#   member "JAX" "$(version jax)" "trains a network"   # its row in the table of README.md
#   program="python3 train.py"   # prints checksum=X or weights=X, and peak=NMiB, or is measured
#   judge
#
# `judge` runs the program directly, under half of its peak, under a quarter, and with half of the
# GPU's time. It also runs it under limits, pauses and evictions that change at random
# (schedule.py). Each run is refused nothing, and ends with the direct run's bits. SEED repeats a
# schedule; SCHEDULES (1) is how many there are. OPTIONS are more options of `run`.
# few_launches=yes: they are too few to wait for a share. A folder may define: directly COMMAND...:
# without Spillway; weighed NAME: one more check of a run.
# shellcheck shell=sh disable=SC2034,SC2154
total_kib=$((1536 << 10)) tolerance='' peak_kib='' member='' few_launches=''
export SOFTGPU_MEMORY=${total_kib}K TOTAL_KIB=$total_kib SPILLWAY="$spillway" OPTIONS=
row=$build/judges/$(basename "$0" .sh)
mkdir -p "$build/judges"
rm -f "$row"

skip() { # skip REASON: ends the test as skipped
	echo "$1"
	exit 77
}

case ${SANITIZER:-} in
address | thread) skip "this sanitizer has to be in the program: Python is built without it" ;;
esac

version() { # version PACKAGE: as it is pinned
	sed -n "s/^$1==//p" tests/clients/requirements.txt
}

member() { # member NAME VERSION TASK
	member="| $1 | $2 | $3 |"
}

judged() { # judged RESULT: leaves the member's row of the table
	echo "$member $1 |" >"$row"
}

directly() {
	"$@"
}

weighed() {
	:
}

# told NAME COMMAND...: its results are in $scratch/NAME, all of its output in NAME.out and NAME.err
told() {
	name=$1
	shift
	"$@" >"$scratch/$name.out" 2>"$scratch/$name.err" ||
		fail "$name: $(tail -n 20 "$scratch/$name.out" "$scratch/$name.err")"
	grep -oE '(losses|weights|checksum)=[^ ]*' "$scratch/$name.out" >"$scratch/$name" ||
		fail "$name has printed no results: $(cat "$scratch/$name.out")"
}

# within NAME KIB OPTION...: a job with that limit
within() {
	job=$1 kib=$2
	shift 2
	as_job "$job" --memory "${kib}KiB" --host-memory $((total_kib - kib))KiB "$@"
}

# as_job NAME OPTION...
as_job() {
	job=$1
	shift
	# shellcheck disable=SC2086 # its words
	told "$job" "$spillway" run $OPTIONS --name "$job" "$@" $program
}

# weigh NAME: it ended as the direct run did, and was refused nothing.
weigh() {
	same "$1: refusals" 0 "$(counter "$1" refusals)"
	if [ -z "$tolerance" ]; then
		same "$1" "$(cat "$scratch/direct")" "$(cat "$scratch/$1")"
	else
		near "$1"
	fi
	weighed "$1"
}

# near NAME: its losses are within $tolerance of the direct run's.
near() {
	paste -d ' ' "$scratch/direct" "$scratch/$1" | tr ' ' '\n' | sed -n 's/^losses=//p' | tr ',' ' ' |
		awk -v bound="$tolerance" 'NR % 2 { for (i = 1; i <= NF; i++) wanted[i] = $i; next }
			{ for (i = 1; i <= NF; i++) { off = $i - wanted[i]; if (off < 0) off = -off
				if (off > bound * (1 + wanted[i])) exit 1 } }' ||
		fail "$1: losses beyond $tolerance: $(cat "$scratch/direct" "$scratch/$1")"
}

judge() {
	# shellcheck disable=SC2086 # its words
	[ -e "$scratch/direct" ] || told direct directly $program
	cat "$scratch/direct.out"
	peak_mib=$(sed -n 's/.*peak=\([0-9]*\)MiB.*/\1/p' "$scratch/direct.out" | sort -n | tail -n 1)
	[ -z "$peak_mib" ] || : "${peak_kib:=$((peak_mib << 10))}"
	[ -n "$peak_kib" ] || {
		within whole "$total_kib"
		weigh whole
		peak_kib=$(($(counter whole device_peak) >> 10))
	}
	within half $((peak_kib / 2))
	within quarter $((peak_kib / 4))
	as_job share --share 50
	for job in half quarter share; do
		weigh $job
	done
	for job in half quarter; do
		[ "$(counter $job host_peak)" -gt 0 ] || fail "$job has had nothing on the host"
	done
	[ -n "$few_launches" ] || [ "$(counter share idle_ns)" -gt 0 ] || fail "share has not waited"
	for i in $(seq "${SCHEDULES:-1}"); do
		# shellcheck disable=SC2086 # its words
		told "changing$i" tests/clients/schedule.py "changing$i" "$peak_kib" $program
		grep 'seed=' "$scratch/changing$i.out"
		weigh "changing$i"
	done
	result="same ${tolerance:+losses within }${tolerance:-bits}"
	case $OPTIONS in *--reported-memory*) result="$result, told limit and host" ;; esac
	judged "$result"
}
