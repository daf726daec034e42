# SPDX-License-Identifier: MIT
# Sourced by the tests of NVIDIA's own driver libraries: every symbol, every address of
# cuGetProcAddress, their missing functions, and the targets of their internal calls. The test gives
#   there        a script: there DRIVER_FOLDER PRELOAD PROGRAM... runs PROGRAM; THERE_DEBUG: the
#                loader's debug output
#   there_shim   what is preloaded
#   addresses, entry, blind, tables   proc_addresses.c, entry.c, blind_calls.c and export_tables.c,
#                built for that machine
#
# The libraries are packages of Debian and Ubuntu (non-free), unpacked into the build folder and
# never part of Spillway.
# shellcheck shell=sh disable=SC2154
# shellcheck source=tests/e2e/proc_address.sh
. tests/e2e/proc_address.sh

sed -n 's/^FUNCTION(\([A-Za-z0-9_]*\),.*/\1/p' shim/entry_points.h | LC_ALL=C sort >"$scratch/functions"
sed -n 's/^\(FUNCTION\|OBJECT\)(\([A-Za-z0-9_]*\),.*/\2/p' shim/entry_points.h | LC_ALL=C sort >"$scratch/known"

with() { timeout -k 1 60 "$there" "$folder" "$there_shim" "$@"; }
without() { timeout -k 1 60 "$there" "$folder" "" "$@"; }

# check_driver NAME FILE: a driver library behind the shim. What it has that shim/entry_points.h
# does not know, as a newer one may, is in $scratch/unknown; cuGetProcAddress must pass it through.
check_driver() {
	name=$1 folder=$(dirname "$2")
	nm -D --defined-only "$2" | awk '{ print $3 }' | LC_ALL=C sort | comm -23 - "$scratch/known" >"$scratch/unknown"
	nm -D --defined-only "$2" | awk '$2 ~ /[TWi]/ { print $3 }' | LC_ALL=C sort >"$scratch/all"
	comm -12 "$scratch/all" "$scratch/known" >"$scratch/has"
	[ "$(wc -l <"$scratch/has")" -gt 400 ] || fail "$name: only $(wc -l <"$scratch/has") functions"

	# dlsym finds what this driver has, by our entry point, and nothing else.
	# shellcheck disable=SC2046 # a list of names
	with "$entry" --symbol $(cat "$scratch/functions") >"$scratch/found"
	sed -n 's/: shim$//p' "$scratch/found" | LC_ALL=C sort >"$scratch/ours"
	sed -n 's/: none, said$//p' "$scratch/found" | LC_ALL=C sort >"$scratch/absent"
	diff "$scratch/has" "$scratch/ours" >&2 || fail "$name: dlsym: the driver has <, the shim shows >"
	comm -23 "$scratch/functions" "$scratch/has" | diff - "$scratch/absent" >&2 ||
		fail "$name: the driver lacks <, dlsym does not find >"

	same "$name: cuInit and others" "$(without "$entry" --init)" "$(with "$entry" --init)"

	# Its internal calls stay inside: it looks none of its own names up, and of ours it gets
	# dlopen and dlmopen, which go on to glibc's. (Linked -Bsymbolic, it has no such reference
	# at all.)
	THERE_DEBUG=$scratch/bindings with "$entry" --init >/dev/null
	cat "$scratch"/bindings.* | sed -n "s,.*binding file $folder/libcuda\.so[^ ]* \[0\] to \(.*\) \[0\].*symbol .\([^']*\)'.*,\1 \2,p" >"$scratch/bound"
	rm "$scratch"/bindings.*
	grep -q '/libc\.so\.6 ' "$scratch/bound" || fail "$name: bound to nothing: $(head -n 3 "$scratch/bound")"
	same "$name: calls that reach the shim" "" "$(sed -n '/ dlm\?open$/d; s,.*/libspillway[^ ]* ,,p' "$scratch/bound")"

	# The private tables are its own, pointer by pointer. The shim opens the file, and a program
	# the link.
	one_name() { sed 's/libcuda\.so[^+ ]*/libcuda.so/'; }
	without "$tables" libcuda.so.1 cuGetExportTable | one_name >"$scratch/tables"
	with "$tables" libcuda.so.1 cuGetExportTable | one_name >"$scratch/tables_behind"
	diff "$scratch/tables" "$scratch/tables_behind" >&2 || fail "$name: private tables differ behind the shim (>)"
	pointers=$(grep -c '+0x' "$scratch/tables") || :
	[ "$pointers" -ge 20 ] || fail "$name: only $pointers pointers in private tables: $(cat "$scratch/tables")"
	echo "$name: $pointers pointers in private tables"

	if ! grep -q '^cuGetProcAddress$' "$scratch/has"; then
		echo "$name: $(wc -l <"$scratch/has") functions; it has no cuGetProcAddress"
		return
	fi
	# shellcheck disable=SC2086 # a list of numbers
	{ cat $requests; every_request $every_version <"$scratch/all"; } >"$scratch/requests"
	without "$addresses" "$scratch/requests" >"$scratch/driver"
	with "$addresses" "$scratch/requests" >"$scratch/shim"
	hooked=$(grep -c ' shim ' "$scratch/shim") || fail "$name: no hook was handed out"
	answered=$(head -n 462 "$scratch/driver" | grep -c ' driver cu')
	[ "$answered" -ge 390 ] || fail "$name: only $answered requests of libcudart were answered"
	compare "$name" "$scratch/driver" "$scratch/shim"
	echo "$name: $(wc -l <"$scratch/has") functions; $(wc -l <"$scratch/requests") addresses, $hooked of them hooks"
}

# check_blind NAME FILE [--init]: every function answers nonsense as it does without us, before or
# after a cuInit that finds no GPU
check_blind() {
	name=$1 library=$2 folder=$(dirname "$2")
	shift 2
	nm -D --defined-only "$library" | awk '$2 == "T" && $3 ~ /^cu[A-Z]/ { print $3 }' >"$scratch/functions_of_it"
	# shellcheck disable=SC2046 # a list of names
	without "$blind" "$@" $(cat "$scratch/functions_of_it") >"$scratch/alone"
	# shellcheck disable=SC2046
	with "$blind" "$@" $(cat "$scratch/functions_of_it") >"$scratch/behind"
	[ "$(wc -l <"$scratch/alone")" -ge "$((2 * $(wc -l <"$scratch/functions_of_it")))" ] || fail "$name: not all functions were called"
	diff "$scratch/alone" "$scratch/behind" >&2 || fail "$name: nonsense is answered differently behind the shim (>)"
	echo "$name: $(wc -l <"$scratch/behind") answers to nonsense"
}

# check_nvml NAME FILE SMI: NVML under a limit, without a GPU: its private tables are its own, which
# nvidia-smi takes its list of processes from; a program of it ends as it does without Spillway.
check_nvml() {
	name=$1 folder=$(dirname "$2") smi=$3
	without "$tables" libnvidia-ml.so.1 nvmlInternalGetExportTable >"$scratch/tables"
	SPILLWAY_MEMORY=16MiB with "$tables" libnvidia-ml.so.1 nvmlInternalGetExportTable >"$scratch/tables_behind"
	diff "$scratch/tables" "$scratch/tables_behind" >&2 || fail "$name: private tables differ behind the shim (>)"
	pointers=$(grep -c '+0x' "$scratch/tables") || :
	[ "$pointers" -ge 200 ] || fail "$name: only $pointers pointers in private tables: $(cat "$scratch/tables")"
	without "$smi" >"$scratch/smi" 2>&1 || echo "status $?" >>"$scratch/smi"
	SPILLWAY_MEMORY=16MiB with "$smi" >"$scratch/smi_behind" 2>&1 || echo "status $?" >>"$scratch/smi_behind"
	diff "$scratch/smi" "$scratch/smi_behind" >&2 || fail "$name: $smi differs behind the shim (>)"
	echo "$name: $pointers pointers in private tables; $(head -n 1 "$scratch/smi")"
}

# check_unlisted NAME FILE: a driver has functions that no header declares, and Spillway no row for.
# doctor names them. A program that is linked to them does not start with the shim alone. Under
# `spillway run` it starts and gets the driver's answers.
check_unlisted() {
	name=$1 library=$2 folder=$(dirname "$2")
	nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | LC_ALL=C sort | comm -12 - "$scratch/unknown" >"$scratch/unlisted"
	grep -q '^cuDriverGetGpuCodeIsaVersion$' "$scratch/unlisted" || fail "$name: functions unknown to Spillway: $(cat "$scratch/unlisted")"
	SPILLWAY_DRIVER=$library "$spillway" doctor >"$scratch/doctor" 2>&1 || :
	has "$name: doctor" "$(cat "$scratch/doctor")" \
		"functions that Spillway does not know: $(wc -l <"$scratch/unlisted") ($(paste -s -d , "$scratch/unlisted" | sed 's/,/, /g'))"
	# Of the debugger's functions the addresses alone are asked for.
	{
		echo '#include <stdio.h>'
		sed 's/.*/extern int &(void *, void *, void *);/' "$scratch/unlisted"
		echo 'int main(void) { int v[64] = {0};'
		sed 's/^cudbg.*/printf("&: %d\\n", & != 0);/; s/^cu[A-Z].*/printf("&: %d %d %d\\n", &(0, 0, 0), &(v, v, v), *v);/' "$scratch/unlisted"
		echo 'return 0; }'
	} >"$scratch/unlisted.c"
	"${CC:-cc}" -o "$scratch/program" "$scratch/unlisted.c" "$library" 2>"$scratch/err" || fail "$name: $(cat "$scratch/err")"
	without "$scratch/program" >"$scratch/alone"
	same "$name: answers" "$(wc -l <"$scratch/unlisted")" "$(wc -l <"$scratch/alone")"
	! with "$scratch/program" >"$scratch/behind" 2>&1 || fail "$name: a program of unknown functions starts with the shim alone"
	LD_LIBRARY_PATH=$folder "$spillway" run --quiet --memory 16MiB "$scratch/program" >"$scratch/behind" 2>"$scratch/err" ||
		fail "$name: $(cat "$scratch/err")"
	diff "$scratch/alone" "$scratch/behind" >&2 || fail "$name: unknown functions answer differently behind the shim (>)"
	echo "$name: unknown to Spillway: $(tr '\n' ' ' <"$scratch/unlisted")"
}
