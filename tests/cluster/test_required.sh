#!/bin/sh
# SPDX-License-Identifier: MIT
# A limited job is refused, never run without its limit. That happens where the machine's file is
# not root's alone or is wrong. With `required = yes` it happens wherever the shim cannot hold a
# process to its part.
set -eu
# shellcheck source=tests/cluster/node.sh
. tests/cluster/node.sh
guest=$node/bin/guest
preloaded yes

# refused WHAT SAYS [COMMAND...]: cuInit fails by one line, and no later call gets a thing
refused() {
	what=$1 why=$2
	shift 2
	"$@" "$guest" init context alloc:8:4 free >"$scratch/out" 2>"$scratch/err" || fail "$what: status $?: $(cat "$scratch/err")"
	same "$what" "init=800 context=800 alloc=0 result=800 total=0 errno=kept free=0 done" \
		"$(tr '\n' ' ' <"$scratch/out" | sed 's/ $//')"
	same "$what: lines: $(cat "$scratch/err")" 1 "$(grep -c . "$scratch/err")"
	has "$what" "$(cat "$scratch/err")" "$why"
	has "$what" "$(cat "$scratch/err")" "; cuInit is refused, because $ini wants no job run without its limits"
}
# runs WHAT COMMAND...: it goes on, with a limit of 16 MiB
runs() {
	what=$1
	shift
	"$@" "$guest" init context alloc:8:4 free >"$scratch/out" 2>"$scratch/err" || fail "$what: status $?: $(cat "$scratch/err")"
	has "$what" "$(cat "$scratch/out")" "init=0"
	has "$what" "$(cat "$scratch/out")" "total=16777216"
}
enforced='[ceiling]\nenforce = yes\n[gpu]\nmemory = 16MiB\n'
required='[ceiling]\nrequired = yes\n[gpu]\nmemory = 16MiB\n'
# shellcheck disable=SC2059 # lines
write() { printf "$1" >$ini; }

# Whose file it is.
write "$enforced"
runs "root's" env
for mode in 0664 0646; do
	chmod $mode $ini
	refused "mode $mode" "$ini: belongs to user 0, mode $mode; expected a file that user 0 alone may write, as it \
is to be enforced" env
done
chmod 0644 $ini
chmod 0777 /etc/spillway
refused "its folder" "/etc/spillway: belongs to user 0, mode 0777; expected a file that user 0 alone may write" env
chmod 0755 /etc/spillway
if [ "$(id -u)" -eq 0 ] && chown 65534 $ini 2>/dev/null; then
	refused "another user's" "$ini: belongs to user 65534, mode 0644; expected a file that user 0 alone may write" env
	write "$required"
	refused "another user's, required" "$ini: belongs to user 65534, mode 0644" env
	printf '[gpu]\nmemory = 16MiB\n' >$ini
	runs "another user's, not enforced" env
	chown 0 $ini
fi

# What is wrong in it, and elsewhere.
write '[ceiling]\nenforce = perhaps\n[gpu]\nmemory = 16MiB\n'
refused "a bad value" "$ini:2: enforce = perhaps: expected no or yes" env
write '[ceiling]\nenforce = yes\nper = group\n'
refused "a bad value" "$ini:3: per = group: expected job or user" env
write '[gpu]\nmemory = much\n[ceiling]\nenforce = yes\n'
refused "a bad value before it" "$ini:2: memory = much: expected a size" env
write '[ceiling]\n\tenforce = yes\n'
refused "an indented key" "$ini:2: enforce = yes: begins with white space" env
write '[gpu]\nshare = 1\0\n[ceiling]\nenforce = yes\n'
refused "a bad byte before it" "$ini:2: byte 10 is 0x00: expected plain text" env
write '[ceiling]\nenforce = yes\n[gpu 0]\nmemory = 16MiB\n'
refused "a GPU's number" "$ini:4: [gpu 0]: expected a UUID or PCI bus id, as it is to be enforced and CUDA_VISIBLE_DEVICES says" env
write '[ceiling]\nenforce = yes\n[gpu 0000:01:00.0]\nmemory = 16MiB\n'
runs "a GPU's bus id" env CUDA_VISIBLE_DEVICES=0
write "$enforced"
refused "a bad variable" "SPILLWAY_MEMORY = much: expected a size" env SPILLWAY_MEMORY=much
write '[Ceiling]\nEnforce = yes\n[gpu]\nmemory = 16MiB\n'
refused "capitals" "$ini:1: [Ceiling]: unknown section, did you mean ceiling?" env SPILLWAY_DISABLE=yes
write '[ceiling]\nrequire = yes\n[gpu]\nmemory = 16MiB\n'
refused "a misspelt key" "$ini:2: require: unknown key in [ceiling], did you mean required?" env SPILLWAY_DISABLE=yes
if [ "$(id -u)" -eq 0 ]; then # whom nothing is hidden from
	write "$enforced"
	install -d -m 700 -o 65534 "$node/gpu"
	chmod 700 /etc/spillway
	refused "a folder that nobody else may enter" "$ini: cannot read it: Permission denied" \
		setpriv --reuid 65534 --regid 65534 --clear-groups env SOFTGPU_STATE_DIR="$node/gpu"
	chmod 755 /etc/spillway
	# Root there is whoever made it.
	if setpriv --reuid 65534 --regid 65534 --clear-groups unshare --user --map-root-user true 2>/dev/null; then
		refused "a user namespace" "$ini: belongs to user 65534, mode 0644" \
			setpriv --reuid 65534 --regid 65534 --clear-groups unshare --user --map-root-user env SOFTGPU_STATE_DIR="$node/gpu"
	fi
fi
write '[gpu]\nmemory = 16MiB\n'
runs "a bad variable, not enforced" env SPILLWAY_SHARE=much

# Where the job's books cannot be had.
write "$required"
runs "required" env SPILLWAY_JOB=job
mkdir -m 755 "$scratch/open"
chmod 777 "$scratch/open"
refused "a directory of everybody" "$scratch/open: mode 0777 lets others write, expected 0700" \
	env SPILLWAY_STATE_DIR="$scratch/open"
printf '\143' | dd of="$own/job.segment" bs=1 seek=8 conv=notrunc 2>/dev/null
exec 9<>"$own/job.segment" # as a process of that version has it
refused "another version" "$own/job.segment: job job runs with another Spillway (segment of version 99, expected version" env SPILLWAY_JOB=job
exec 9>&-
rm "$own/job.segment"
refused "no thread" "no helper thread" env LD_LIBRARY_PATH="$build/bench/null" "$build/tests/e2e/deny" clone3=EAGAIN clone=EAGAIN --
write '[ceiling]\nrequired = yes\n'
refused "without a limit, too" "$scratch/open: mode 0777" env SPILLWAY_STATE_DIR="$scratch/open"
write '[gpu]\nmemory = 16MiB\n'
runs "not required" env SPILLWAY_STATE_DIR="$scratch/open"

# Where it is enforced who is limited is refused, and who is not goes on.
chmod 777 "$own"
write "$enforced"
refused "enforced" "$own: mode 0777 lets others write" env
write '[ceiling]\nenforce = yes\nshare = 50\n'
refused "a share" "$own: mode 0777 lets others write" env
write '[ceiling]\nenforce = yes\n'
"$guest" init >"$scratch/out" 2>&1
has "nothing is limited" "$(cat "$scratch/out")" "init=0"
