#!/bin/sh
# SPDX-License-Identifier: MIT
# make release: refused without a tag, a date, a clean tree or an answer of Debian's archive. Two
# clones give the same bytes. Their commit is of the past, as dpkg-deb dates older files by the
# clock.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
version=$(sed -n 's/^version := //p' Makefile)
command -v git >/dev/null && git rev-parse HEAD >/dev/null 2>&1 || {
	echo 'this is no clone'
	exit 77
}
clone() { # clone FOLDER: as a release is, committed, dated and tagged
	git clone -q "$scratch/bare" "$1"
	(
		cd "$1"
		git config user.name Test
		git config user.email test@example.com
		sed -i "s/^## \[$version\].*/## [$version] - 2026-01-02/" CHANGELOG.md
		GIT_COMMITTER_DATE='2026-01-02 12:00 +0000' git commit -qam Release --date='2026-01-02 12:00 +0000' --allow-empty
	)
}
refused() { # refused TEXT: make release says so in the first clone
	! make -C "$scratch/one" release >"$scratch/said" 2>&1 || fail "make release: not refused: $1"
	has 'make release' "$(cat "$scratch/said")" "$1"
}
git clone -q --bare . "$scratch/bare" # both clones are of this moment
clone "$scratch/one"
refused "HEAD is not tagged v$version"
echo >>"$scratch/one/README.md"
refused 'changes that are not committed'
git -C "$scratch/one" checkout -q README.md
clone "$scratch/two"
for one in one two; do
	git -C "$scratch/$one" tag "v$version"
done
# A mirror that was asked a moment ago and did not answer.
mkdir -p "$scratch/one/build/debs"
touch "$scratch/one/build/debs/.no-answer"
refused 'cannot fetch libc6 busybox-static'
make -C "$scratch/one" release IMAGE=no >"$scratch/said" 2>&1 || fail "make release IMAGE=no: $(tail -n 20 "$scratch/said")"
has 'make release IMAGE=no' "$(cat "$scratch/said")" 'this release has no image'
same 'the files of a release without an image' 6 "$(wc -l <"$scratch/one/build/packages/release/SHA256SUMS")"
rm "$scratch/one/build/debs/.no-answer"
for one in one two; do
	make -C "$scratch/$one" release >"$scratch/said" 2>&1 || fail "make release: $(tail -n 20 "$scratch/said")"
done
diff "$scratch/one/build/packages/release/SHA256SUMS" "$scratch/two/build/packages/release/SHA256SUMS" ||
	fail 'two runs of make release differ'
tar -C "$scratch" -xzf "$scratch/one/build/packages/release/gpu-kit.tar.gz"
STEPS=machine "$scratch/gpu-kit/selftest" "$scratch/out" 1 >"$scratch/said" 2>&1 || fail "the GPU kit: $(cat "$scratch/said")"
same 'the files of a release' 7 "$(wc -l <"$scratch/one/build/packages/release/SHA256SUMS")"
