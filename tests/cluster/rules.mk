# SPDX-License-Identifier: MIT
# Every tests/cluster/test_*.sh: a machine with its administrator's configuration, and its
# monitoring. They need packages (tools/dev/deps cluster) and a mount namespace.
cluster_tests := $(sort $(wildcard tests/cluster/test_*.sh))
# With Slurm's accounting: a database besides.
cluster_long_tests := $(sort $(wildcard tests/cluster/long_*.sh))
