# SPDX-License-Identifier: MIT
# Sourced by the test scripts: the shim preloaded, and checks that print their findings.
# shellcheck shell=sh disable=SC2034
# shellcheck source=tests/ending.sh
. tests/ending.sh
mark_started
unset KUBERNETES_SERVICE_HOST # its pod's names would be labels of each job
build=$(cd "$BUILD" && pwd)
shim="$build/lib/libspillway.so $build/lib/libspillway-alias.so"
spillway=$build/spillway
softgpu=$build/softgpu
if [ -n "${SANITIZER:-}" ]; then patience=240; else patience=150; fi # seconds that nothing should need
scratch=${TMPDIR:?set by tests/run}
SOFTGPU_STATE_DIR=$scratch/softgpu
export SOFTGPU_STATE_DIR
mkdir -p "$SOFTGPU_STATE_DIR"
# A context's memory counts against a limit. In tests a limit is what the program's own memory may
# be, unless they say otherwise.
: "${SOFTGPU_CONTEXT_MEMORY:=0}"
export SOFTGPU_CONTEXT_MEMORY

fail() {
	echo "FAILED: $*"
	exit 1
}

# built_in MODULE: the shim has that module (make check MODULES=)
built_in() { case " ${MODULES-$1} " in *" $1 "*) ;; *) return 1 ;; esac; }

# under_shim COMMAND...: on the software GPU, preloaded without the tool; where elsewhere.sh says,
# if it does.
under_shim() {
	if [ -n "${ELSEWHERE:-}" ]; then
		"$ELSEWHERE" "$@"
	else
		LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$@"
	fi
}

# run_here SCRIPT: makes a script that runs a program on this machine: SCRIPT DRIVER_FOLDER PRELOAD
# PROGRAM...
# THERE_DEBUG: file for the loader's bindings
run_here() {
	cat >"$1" <<'END'
#!/bin/sh
driver=$1 preload=$2
shift 2
exec env ${THERE_DEBUG:+LD_DEBUG=bindings LD_DEBUG_OUTPUT="$THERE_DEBUG"} LD_PRELOAD="$preload" LD_LIBRARY_PATH="$driver" "$@"
END
	chmod +x "$1"
}

# on_softgpu COMMAND...: without Spillway.
on_softgpu() {
	LD_LIBRARY_PATH=$softgpu "$@"
}

# probe_driver: the cache of the probe is of the software GPU as SOFTGPU_* makes it now
probe_driver() {
	[ ! -e "$SPILLWAY_STATE_DIR/driver-probe" ] ||
		sed -i "/ driver ${SOFTGPU_DRIVER_VERSION:-13000} /d" "$SPILLWAY_STATE_DIR/driver-probe"
	SPILLWAY_NODE_DIR=/dev/null/none SPILLWAY_DRIVER=$softgpu/libcuda.so.1 "$spillway" doctor --probe >"$scratch/probed" 2>&1 ||
		fail "the driver cannot be probed: $(cat "$scratch/probed")"
}

# same WHAT EXPECTED GOT
same() {
	[ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}

# has WHAT TEXT PART: TEXT contains PART
has() {
	case $2 in *"$3"*) ;; *) fail "$1: expected '$3' in: $2" ;; esac
}

# field NAME TEXT: the value of NAME=value in TEXT
field() {
	printf '%s\n' "$2" | sed -n "s/.*\\b$1=\\([^ ;,]*\\).*/\\1/p" | head -n 1
}

# until_true SECONDS COMMAND...: waits for COMMAND to succeed, and looks less often after a while
until_true() {
	tries=$(($1 * 20)) looks=0
	shift
	while ! "$@" >/dev/null 2>&1; do
		looks=$((looks + 1))
		if [ $looks -le 20 ]; then
			sleep 0.05
		else
			tries=$((tries - 1))
			sleep 0.1
		fi
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
	done
}

# device_bytes: what the software GPU itself counts on device 0, over all processes but those that
# probe the driver. `spillway run` starts a probe beside the program, and on a busy machine it may
# outlast the program. Two of them hold up to 16 MiB.
device_bytes() {
	"$softgpu/softgpu-truth" | {
		sum=0
		while read -r device pid bytes _; do
			[ "$device" = 0 ] || continue
			{ read -r program <"/proc/$pid/comm"; } 2>/dev/null || program=
			[ "$program" = driver-probe ] || sum=$((sum + bytes))
		done
		echo $sum
	}
}

# counter JOB NAME: of its first device; nothing while there is none. What is asked for again and
# again starts no program that is not needed.
counter() {
	counters=$("$spillway" stat "$1" --json 2>/dev/null) || :
	counters=${counters%%',"processes":'*}
	case $counters in *"\"$2\":"*) ;; *) return 0 ;; esac
	counters=${counters#*"\"$2\":"}
	counters=${counters%%[],\{\}:]*}
	counters=${counters#\"}
	echo "${counters%\"}"
}
# pid_of JOB: of its first process
pid_of() {
	"$spillway" stat "$1" --json | sed 's/.*"processes":\[{"pid":\([0-9]*\),.*/\1/'
}

# undisturbed COMMAND...: again, where the command says that a time is off, as it may be on a busy
# machine: a kernel that was held up there had the device all the while. What is off each time is
# wrong, and so is at once whatever else fails.
undisturbed() {
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
		verdict=0
		("$@") >"$scratch/try" 2>&1 || verdict=$?
		[ $verdict -eq 3 ] || break
	done
	[ $verdict -eq 0 ] && return
	cat "$scratch/try"
	exit 1
}
off() {
	echo "FAILED, each time: $*"
	exit 3
}
