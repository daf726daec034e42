#!/bin/sh
# SPDX-License-Identifier: MIT
# The tarball builds in Debian 12 and 13 as well (gcc 12 and 14, glibc 2.36 and 2.41), and in Ubuntu
# 22.04 and 24.04 (gcc 11 and 13, glibc 2.35 and 2.39).
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/packages/roots.sh
. tests/packages/roots.sh
# shellcheck source=tests/packages/source.sh
. tests/packages/source.sh
version=$(sed -n 's/^version := //p' Makefile)
source_in bookworm
source_in trixie
source_in jammy
source_in noble
