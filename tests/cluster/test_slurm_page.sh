#!/bin/sh
# SPDX-License-Identifier: MIT
# Spillway-slurm(7)'s way from packages to a shard that is enforced: each of its commands, as it is
# written. Packages are there already, and services are started without systemd.
set -eu
# shellcheck source=tests/cluster/slurm.sh
. tests/cluster/slurm.sh
page=$PWD/tools/man/spillway-slurm.7.scd
unset SLURM_CONF
for directory in /usr/local /var/spool /var/log /etc/slurm /etc/munge; do
	mkdir -p $directory
	mount -t tmpfs -o mode=755 none $directory
done
echo "127.0.0.1 localhost $(hostname -s)" >/etc/hosts
mkdir /etc/spillway-stubs
cat >/etc/spillway-stubs/apt-get <<'END'
#!/bin/sh
# All that is to be installed is there.
for word; do
	case $word in install | -*) ;; *) dpkg-query -W -f '${db:Status-Status}' "$word" | grep -qx installed || exit 1 ;; esac
done
END
cat >/etc/spillway-stubs/systemctl <<'END'
#!/bin/sh
# What systemd would do, where there are no cgroups to be had; the machine has no /dev/nvidia0.
set -eu
printf '%s\n' ProctrackType=proctrack/linuxproc TaskPlugin=task/none JobAcctGatherType=jobacct_gather/none >>/etc/slurm/slurm.conf
echo ConstrainRAMSpace=no >/etc/slurm/cgroup.conf
sed -i s,/dev/nvidia0,/dev/null, /etc/slurm/gres.conf
[ "$*" = "restart munge slurmctld slurmd" ]
dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 2>/dev/null
chmod 400 /etc/munge/munge.key
mkdir -p /run/munge /var/log/munge /var/lib/munge
munged --force
slurmctld
slurmd
END
chmod +x /etc/spillway-stubs/*
PATH=/etc/spillway-stubs:/usr/local/bin:$PATH
LD_LIBRARY_PATH=
export DEPS=never MAKEFLAGS="BUILD=$build"
sed -n '/^# FROM PACKAGES/,/^# OPTIONS/{/^```/,/^```/{/^```/d;p}}' "$page" >"$scratch/commands"
count=$(wc -l <"$scratch/commands")
[ "$count" -ge 5 ] && [ "$count" -le 10 ] || fail "the page has $count commands, expected at most ten"
n=0
while read -r command; do
	n=$((n + 1))
	eval "$command" </dev/null >"$scratch/$n" 2>&1 || fail "$command: $(tail -n 5 "$scratch/$n") $(tail -n 3 /var/log/slurm*.log 2>/dev/null)"
done <"$scratch/commands"
has "a shard" "$(cat "$scratch"/[0-9])" "memory = 25.000%"
has "what was asked for" "$(cat "$scratch/$n")" "memory = 8GiB (/etc/spillway/spillway.ini:"
