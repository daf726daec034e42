#!/bin/sh
# SPDX-License-Identifier: MIT
# Debian's packages in a Debian 12. lintian finds no errors, they install without a network, and a
# training runs under a limit. A job that is alive during an upgrade goes on and is shown. After a
# purge none of their files is left, with Spillway in the preload list of the machine or not.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/packages/roots.sh
. tests/packages/roots.sh
version=$("$spillway" --version | sed 's/.* //')
lintian --fail-on error "$build"/packages/*_"$version"_*.deb >"$scratch/lintian" 2>&1 || fail "lintian: $(cat "$scratch/lintian")"
cp "$build"/packages/*_"$version"_*.deb "$TMPDIR/"

# The same packages by a lower version, to be upgraded.
mkdir "$TMPDIR/before"
for deb in "$TMPDIR"/*.deb; do
	dpkg-deb --raw-extract "$deb" "$scratch/deb"
	sed -i "s/$version\(.*\)$/$version~1\1/" "$scratch/deb/DEBIAN/control"
	dpkg-deb --root-owner-group -Znone --build "$scratch/deb" "$TMPDIR/before" >/dev/null
	rm -rf "$scratch/deb"
done

cat >"$TMPDIR/tried" <<'EOS'
set -eu
say() { echo "FAILED: $*"; exit 1; }
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
apt-get install -y /mnt/before/spillway_*.deb /mnt/before/spillway-softgpu_*.deb >/root/log 2>&1 || { cat /root/log; say install; }
dpkg -s spillway | grep '^Version: .*~1$'
spillway run --softgpu --memory 64MiB train_mlp --scale 4 2>&1

spillway run --softgpu --memory 64MiB --name lives train_mlp --scale 4 --epochs 100000 >/root/lives 2>&1 &
job=$!
until spillway stat lives 2>/dev/null | grep -q 'train_mlp'; do sleep 0.1; kill -0 $job || say "$(cat /root/lives)"; done
apt-get install -y /mnt/spillway_*.deb /mnt/spillway-softgpu_*.deb >/root/log 2>&1 || { cat /root/log; say upgrade; }
dpkg -s spillway | grep '^Version: ' | grep -v '~1$'
kill -0 $job || say "the job ended with the upgrade: $(cat /root/lives)"
spillway stat lives | grep '^job lives: running' || say 'the job is not shown after the upgrade'
spillway set lives --memory 32MiB | grep 'limit 32.0 MiB, share [0-9]* %$' || say 'its limit does not change after the upgrade'
spillway run --softgpu --name lives --join train_mlp --epochs 1 >/root/joins 2>&1 || say "joining: $(cat /root/joins)"
pkill -x train_mlp
wait $job || true

echo '/usr/lib/spillway/libspillway.so /usr/lib/spillway/libspillway-alias.so' >/etc/ld.so.preload
apt-get purge -y spillway spillway-softgpu >/root/log 2>&1 || { cat /root/log; say purge; }
! grep spillway /etc/ld.so.preload || say 'the preload list names it after a purge'
ls / >/dev/null 2>/root/log
[ ! -s /root/log ] || say "commands complain after a purge: $(cat /root/log)"
find / -xdev -name '*spillway*' -not -path '/proc/*' -not -path '/mnt/*' -not -path '/var/log/*' -not -path '/var/lib/systemd/*' >/root/left
[ ! -s /root/left ] || say "left after a purge: $(cat /root/left)"
echo tried
EOS
need_root bookworm apt libncursesw6 libtinfo6 procps python3
in_root 'sh /mnt/tried' >"$scratch/debian" 2>&1 || fail "Debian 12: $(cat "$scratch/debian")"
has "the training" "$(cat "$scratch/debian")" 'steps=1080 accuracy=96.67'
has "the summary" "$(cat "$scratch/debian")" 'GPU at most 64.0 MiB'
has "the end" "$(cat "$scratch/debian")" tried
