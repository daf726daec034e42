#!/bin/sh
# SPDX-License-Identifier: MIT
# The site has every document and task. No page has a script or loads anything from elsewhere, and
# each link leads to a page and a heading. A command that was run has its output, the rest are
# marked. A command that fails and a link that leads nowhere end it.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
site=$build/site
for page in tools/man/*.scd; do
	page=${page##*/}
	[ -s "$site/man/${page%.scd}.html" ] || fail "${page%.scd} has no page"
done
for task in training jupyter slurm kubernetes; do
	page=$site/tools/site/$task.html
	grep -q '<pre class="printed">' "$page" || fail "$task: nothing was run"
	grep -q '<p class="not-run">Not run: ' "$page" || fail "$task: nothing is marked as not run"
	same "$task: blocks that were not run" "$(grep -c '^```sh not-run ' "tools/site/$task.md")" "$(grep -c '<p class="not-run">' "$page")"
done
has 'the training' "$(cat "$site/tools/site/training.html")" 'GPU at most 64.0 MiB'
has 'the notebook' "$(cat "$site/tools/site/jupyter.html")" 'evicted, 256 MiB on the host'
python3 - "$site" <<'END' || fail 'pages'
import html.parser, os, sys
site = sys.argv[1]
ids, links, wrong = {}, [], []
class Page(html.parser.HTMLParser):
    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key == "id":
                ids[self.path].add(value)
            elif key in ("href", "src"):
                links.append((self.path, tag, value))
            elif key.startswith("on"):
                wrong.append(f"{self.path}: {key}")
        if tag in ("script", "iframe", "object"):
            wrong.append(f"{self.path}: {tag}")
for folder, _, names in os.walk(site):
    for name in names:
        path = os.path.join(folder, name)
        if name.endswith(".svg"):
            with open(path) as file:
                if "<script" in file.read():
                    wrong.append(f"{path}: script")
        if name.endswith(".html"):
            ids[path] = set()
            page = Page()
            page.path = path
            with open(path, encoding="utf-8") as file:
                page.feed(file.read())
for path, tag, link in links:
    file, _, anchor = link.partition("#")
    if "://" in link or link.startswith("mailto:"):
        if tag != "a":
            wrong.append(f"{path}: loads {link}")
        continue
    target = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
    if not os.path.isfile(target) or anchor and target.endswith(".html") and anchor not in ids[target]:
        wrong.append(f"{path}: {link} leads nowhere")
if len(ids) < 30 or len(links) < 200:
    wrong.append(f"only {len(ids)} pages with {len(links)} links")
print("\n".join(wrong))
sys.exit(bool(wrong))
END

# A tree whose task fails, and whose guide links to what is not there.
tree=$scratch/tree
mkdir -p "$tree/tools/dev" "$tree/tools/man" "$tree/tools/site"
cp tools/dev/site "$tree/tools/dev/"
echo 'version := 1' >"$tree/Makefile"
for document in README CHANGELOG SECURITY; do echo "# $document" >"$tree/$document.md"; done
echo '[gone](gone.md)' >>"$tree/README.md"
printf '# Bad\n```sh\necho first\nfalse\necho second\n```\n```sh\necho third\n```\n' >"$tree/tools/site/bad.md"
! "$build/packages/venv/bin/python" "$tree/tools/dev/site" "$build" "$scratch/out" >"$scratch/said" 2>&1 || fail 'a command that fails ends nothing'
has 'the command' "$(cat "$scratch/said")" 'tools/site/bad.md: status no end of: echo first'
has 'the link' "$(cat "$scratch/said")" 'README.md: gone.md leads nowhere'
