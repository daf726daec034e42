#!/bin/sh
# SPDX-License-Identifier: MIT
# pin_new = auto: a process can register memory behind the driver's back. Memory that a network
# library made or asks about stays on the device, while all other memory leaves it. Devices' files
# are ours; the process is shown them in /dev.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
registers=$build/tests/e2e/registers
nccl=$build/tests/e2e/libnccl.so.2
runner=''

# within COMMAND...: where there are /dev/infiniband/uverbs0 and /dev/nvidia-fs0
within() {
	# shellcheck disable=SC2016 # for the inner shell
	unshare -rm sh -c '
		mount --rbind /dev "$1/dev" && mount -t tmpfs none /dev && mkdir /dev/shm /dev/infiniband || exit 77
		for name in null zero urandom shm; do
			[ -d "/dev/$name" ] || : >"/dev/$name"
			mount --rbind "$1/dev/$name" "/dev/$name" || exit 77
		done
		: >/dev/infiniband/uverbs0
		: >/dev/nvidia-fs0
		: >/dev/infiniband/issm0
		shift
		exec "$@"
	' sh "$scratch" "$@"
}
mkdir "$scratch/dev"
within true 2>/dev/null || {
	echo "SKIP: /dev cannot be covered here"
	exit 77
}

# leaves JOB MIB SETTING LIBRARY [DEVICE_FILE]: with a limit of next to nothing, what stays on the
# device
leaves() {
	job=$1 stays=$2 setting=$3
	shift 3
	limit_file "$scratch/$job.ini" $((64 * mib)) "$setting"
	rm -f "$scratch/to" "$scratch/from"
	mkfifo "$scratch/to" "$scratch/from"
	within "$spillway" run --softgpu --quiet --name "$job" --config "$scratch/$job.ini" "$registers" "$@" \
		<"$scratch/to" >"$scratch/from" 2>"$scratch/$job.errors" &
	runner=$!
	exec 8>"$scratch/to" 9<"$scratch/from"
	read -r said <&9 && same "$job" ready "$said" || fail "$job: $(cat "$scratch/$job.errors")"
	limit_file "$scratch/$job.ini" $mib "$setting"
	until_true $patience device_within $((stays * mib)) || fail "$job: $(device_bytes) bytes on the device, not $stays MiB"
	same "$job: pinned" $((stays * mib)) "$(counter "$job" pinned_chunks)"
	same "$job: on the device" $((stays * mib)) "$(device_bytes)"
	exec 8>&- 9<&-
	wait $runner || fail "$job: $(cat "$scratch/$job.errors")"
}

ordinary=$build/tests/e2e/libordinary.so
leaves nobody 0 "" "$nccl"
leaves auto 16 "" "$nccl" /dev/infiniband/uverbs0
leaves storage 16 "pin_new = auto" "$nccl" /dev/nvidia-fs0
leaves other 0 "" "$nccl" /dev/infiniband/issm0
# Who asks whether a network may reach it does so for a reason, whoever it is.
leaves strange 4 "" "$ordinary" /dev/infiniband/uverbs0
leaves no 0 "pin_new = no" "$nccl" /dev/infiniband/uverbs0
