#!/bin/sh
# SPDX-License-Identifier: MIT
# The software GPU keeps the memory of a process in another namespace of process ids, where no
# process of this namespace has its number.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh

number=$(cat /proc/sys/kernel/pid_max)
while [ -e "/proc/$((number -= 100))" ]; do :; done
cat >"$scratch/within" <<'END'
#!/bin/sh
echo $(($1 - 1)) >/proc/sys/kernel/ns_last_pid || exit 77
shift
"$@" &
wait
END
chmod +x "$scratch/within"
unshare --user --map-root-user --pid --fork --mount-proc true 2>/dev/null || {
	echo "no namespaces of process ids here"
	exit 77
}
LD_LIBRARY_PATH=$softgpu unshare --user --map-root-user --pid --fork --mount-proc "$scratch/within" $number \
	"$build/tests/e2e/allocate" --mib 8 --count 2 --hold-ms 600000 --ready "$scratch/ready" >"$scratch/out" 2>&1 &
until_true $patience test -e "$scratch/ready" || fail "nothing is allocated: $(cat "$scratch/out")"
same "its number" "0 $number" "$("$softgpu/softgpu-truth" | awk '$1 == "0" { print $1, $2 }')"
# Each look sweeps the processes that are gone.
on_softgpu "$build/tests/e2e/allocate" --mib 2 --count 1 --hold-ms 0 >/dev/null
same "its memory" $((16 * mib)) "$(device_bytes)"
