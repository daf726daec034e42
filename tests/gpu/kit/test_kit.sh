#!/bin/sh
# SPDX-License-Identifier: MIT
# The GPU kit is small, and no program in it wants a newer glibc than 2.31 or a library of its own.
# A part of it runs on a bare machine. Ended by any signal, it leaves an archive of the results
# until then.
set -eu
. tests/gpu/kit/bare.sh
kit=$BUILD/gpu-kit

size=$(du -sk "$kit" | cut -f 1)
[ "$size" -lt 65536 ] || fail "the kit has $size KiB, expected less than 64 MiB"

# Programs, and what they are linked to.
find "$kit/build" -type f -perm -u+x >"$TMPDIR/programs"
[ "$(wc -l <"$TMPDIR/programs")" -ge 40 ] || fail "only $(wc -l <"$TMPDIR/programs") programs"
while read -r program; do
	newest=$(objdump -T "$program" | sed -n 's/.*GLIBC_2\.\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
	[ "${newest:-0}" -le 31 ] || fail "$program wants glibc 2.$newest"
	readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$TMPDIR/needed"
	while read -r library; do
		case $library in
		libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | ld-linux*) ;;
		libcuda.so.1 | libcudart.so.13 | libnvidia-ml.so.1) ;;
		*) fail "$program wants $library" ;;
		esac
	done <"$TMPDIR/needed"
	# Of the old glibc's libraries, all that it uses has to be named.
	case $program in */build/lib/* | */libcudart.so.13 | */empty.so) continue ;; esac
	grep -qx libpthread.so.0 "$TMPDIR/needed" || fail "$program does not name libpthread.so.0"
done <"$TMPDIR/programs"
echo "$size KiB, $(wc -l <"$TMPDIR/programs") programs, none wants more than glibc 2.31"

bare_make
for tool in cc gcc python3 python perl make nvcc; do
	[ ! -e "$root/bin/$tool" ] || fail "the bare root has $tool"
done

# Without a GPU and without the software GPU it says so.
if (bare /kit/run-part 1 /out/none) >"$TMPDIR/said" 2>&1; then fail "a part ran without a GPU"; fi
grep -q 'no GPU answers here' "$TMPDIR/said" || fail "$(cat "$TMPDIR/said")"

# A part of a part, with the software GPU.
for part in "1 machine|questions|addresses" "2 doctor"; do
	(VARIABLES="STEPS=${part#* }" bare /kit/selftest /out/run "${part%% *}") >"$TMPDIR/said" 2>&1 || fail "$(cat "$TMPDIR/said")"
	cat "$TMPDIR/said"
done
archived() { # archived OUT FILE: a file of the archive, which can be read to its end
	tar -tf "$TMPDIR/out/$1.tar" >/dev/null || fail "$1.tar cannot be read"
	tar -xOf "$TMPDIR/out/$1.tar" "$1/$2" 2>/dev/null
}
archived run results.md | grep -q '^| 1-questions | ok |' || fail "results.md: $(archived run results.md)"
archived run what-to-change.md | grep -q '^# What to change' || fail "what-to-change.md: $(archived run what-to-change.md)"
printf 'gpu\tSpillway software GPU\ndriver\t%s\nspillway\t%s\nsteps\t4 ok, 0 failed, 0 skipped\n' \
	"$(tests/conformance/driver_version || :)" "$("$BUILD/spillway" --version | sed 's/.* //')" >"$TMPDIR/expected"
archived run report.tsv | diff "$TMPDIR/expected" - || fail "the report: $(archived run report.tsv)"
# What the kit's README says that is not recorded.
mkdir "$TMPDIR/unpacked"
tar -xf "$TMPDIR/out/run.tar" -C "$TMPDIR/unpacked"
host=$(uname -n)
case $host in ??????*) ;; *) host=no-such-host ;; esac # a short one is a part of words
for name in /out/run /kit/ /tmp/gpu-kit "$host" GPU-7370696c; do
	! grep -rF -e "$name" "$TMPDIR/unpacked" || fail "the archive names $name"
done
[ "$(archived run 1-questions/answers.tsv | wc -l)" -ge 80 ] || fail "answers.tsv: $(archived run 1-questions/answers.tsv)"
[ "$(archived run 1-addresses/addresses.tsv | grep -c ' driver cu')" -ge 1000 ] || fail "few addresses"

# The probe takes a minute and more so.
slow=SOFTGPU_KERNEL_TIME_US=1000000

# interrupted SIGNAL: the run gets it in its second step
interrupted() {
	signal=$1
	if [ "$signal" = KILL ]; then all_die=yes; else all_die=; fi
	(VARIABLES="STEPS=machine|probe $slow" ALL_DIE=$all_die bare /kit/selftest "/out/$signal" 1) >"$TMPDIR/said" 2>&1 &
	run=$!
	tries=2400
	until [ -s "$TMPDIR/out/$signal/1-probe/probe.tsv" ]; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || fail "$signal: the probe does not begin: $(cat "$TMPDIR/said")"
		sleep 0.05
	done
	kill -"$signal" $run
	wait $run && fail "$signal: the run ended as if nothing had been"
	archived "$signal" steps.tsv >"$TMPDIR/steps" || fail "$signal: no steps in the archive"
	grep -q '^1-machine	ok' "$TMPDIR/steps" || fail "$signal: $(cat "$TMPDIR/steps")"
}
interrupted TERM
grep -q '^1-probe	interrupted' "$TMPDIR/steps" || fail "TERM: $(cat "$TMPDIR/steps")"
archived TERM 1-probe/probe.tsv | grep -q '^device	' || fail "TERM: what the probe had learnt is not in the archive"
interrupted KILL

# A part ends in its time whatever the driver does: what was learnt until then is kept, and what was
# not reached is said.
for seconds in 8 16 32 64; do # a busy machine may not come to the probe in the first few
	if (VARIABLES="STEPS=machine|probe|conformance PART_SECONDS=$seconds $slow" bare /kit/selftest /out/slow 1) >"$TMPDIR/said" 2>&1; then
		fail "a part that was cut short ended as if nothing had been: $(cat "$TMPDIR/said")"
	fi
	[ ! -s "$TMPDIR/out/slow/1-probe/probe.tsv" ] || break
done
archived slow steps.tsv >"$TMPDIR/steps"
grep -q '^1-probe	out of time	' "$TMPDIR/steps" || fail "$(cat "$TMPDIR/steps")"
grep -q '^1-conformance	not reached	' "$TMPDIR/steps" || fail "$(cat "$TMPDIR/steps")"
archived slow 1-probe/probe.tsv | grep -q '^device	' || fail "what the probe had learnt is not in the archive"
