#!/bin/sh
# SPDX-License-Identifier: MIT
# Slurm with slurmdbd and MariaDB: sacct reports a job's use of its nodes when it has ended.
set -eu
PATH=$PATH:/usr/sbin:/sbin
for command in slurmdbd sacctmgr mariadbd mariadb-install-db; do
	command -v $command >/dev/null || {
		echo "no $command here; the package is slurmdbd, slurm-client or mariadb-server"
		exit 77
	}
done
slurm_conf='AccountingStorageHost=127.0.0.1
AccountingStoragePort=DBD_PORT
AccountingStoragePass=/mnt/slurm/munge.socket' # whose daemon vouches
# shellcheck source=tests/cluster/slurm.sh
. tests/cluster/slurm.sh
sed -i "s/^AccountingStorageType=.*/AccountingStorageType=accounting_storage\/slurmdbd/; s/DBD_PORT/$((port + 3))/" "$slurm/slurm.conf"
data=$slurm/mariadb
mkdir "$data"
mariadb-install-db --no-defaults --user=root --datadir="$data" --force --auth-root-authentication-method=normal >"$scratch/db" 2>&1 ||
	fail "mariadb-install-db: $(tail -n 5 "$scratch/db")"
mariadbd --no-defaults --user=root --datadir="$data" --socket="$slurm/db.socket" --port=$((port + 4)) \
	--bind-address=127.0.0.1 --pid-file="$slurm/db.pid" >"$scratch/mariadbd" 2>&1 &
answers() { mariadb --no-defaults --socket="$slurm/db.socket" -e 'select 1' >/dev/null 2>&1; }
until_true $patience answers || fail "mariadbd: $(tail -n 5 "$scratch/mariadbd")"
mariadb --no-defaults --socket="$slurm/db.socket" -e "create user slurm@localhost identified by 'secret';
create user slurm@127.0.0.1 identified by 'secret'; grant all on accounts.* to slurm@localhost; grant all on accounts.* to slurm@127.0.0.1"
cat >"$slurm/slurmdbd.conf" <<END
AuthType=auth/munge
AuthInfo=socket=$slurm/munge.socket
DbdHost=$host
DbdAddr=127.0.0.1
DbdPort=$((port + 3))
SlurmUser=root
LogFile=$slurm/slurmdbd.log
PidFile=$slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((port + 4))
StorageUser=slurm
StoragePass=secret
StorageLoc=accounts
END
chmod 600 "$slurm/slurmdbd.conf"
plugged
start_munge
slurmdbd || fail "slurmdbd: $(tail -n 5 "$slurm/slurmdbd.log")"
has_accounts() { sacctmgr --immediate --quiet list cluster >/dev/null 2>&1; }
until_true $patience has_accounts || fail "slurmdbd: $(tail -n 5 "$slurm/slurmdbd.log")"
sacctmgr --immediate --quiet add cluster spillway >"$scratch/out" 2>&1 || true # slurmctld would, too
start_slurm

batch "srun $allocate --mib 8 --count 6" --nodes=2 --ntasks-per-node=1 --gres=gpu:1 --gpu-mem=16M
ended "$id"
told() { sacct --noheader --parsable2 --allocations --jobs "$id" --format AdminComment%500 | grep node=n2; }
until_true $patience told >/dev/null || fail "sacct does not tell: $(sacct --jobs "$id" --format jobid,state,AdminComment%200)"
has "sacct" "$(told)" "spillway node=n1 peak=16MiB spilled="
has "sacct" "$(told)" "spillway node=n2 peak=16MiB spilled="
