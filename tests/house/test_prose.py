#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts how the project is written, and fails where a count is above its bound in tests/house/prose.

Comments are those of core, shim and tools. Documents are README.md, CONTRIBUTING.md, the man pages
and the components' READMEs. Tests are the first comment of each file below tests/. Code spans, code
blocks and quotations do not count. Commit subjects are those since the last tag, where there is a
history. The worst ten places of each count that is above its goal are printed with VERBOSE=1 or
when it fails.

test_prose.py [ROOT [TABLE]]
"""

import collections
import os
import re
import subprocess
import sys

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
os.chdir(root)
TABLE = sys.argv[2] if len(sys.argv) > 2 else "tests/house/prose"
BLOCK = re.compile(r"/\*(.*?)\*/", re.S)
COMMENT = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'|/\*(.*?)\*/|//([^\n]*)", re.S)
WORDS = {name: re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.I) for name, words in {
    "who": "who|whom|whose|whoever",
    "what": "what|whatever",
    "nobody": "nobody|somebody|everybody|anybody|others",
    "example": "for example|e\\.g\\.",
}.items()}
SENTENCE = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z\"*_`(])|\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\. ))")
STATIC = re.compile(r"^static (?:inline )?(?:[A-Za-z_][\w ]*?[ *]+)?\**([a-z_]\w*)\(", re.M)
SENTENCE_WORDS = 25
wrong = []


def files():
    """Returns the paths of comments, of documents and of tests."""
    code, documents, tests = [], ["README.md", "CONTRIBUTING.md"], []
    for top in ("core", "shim", "tools", "tests"):
        for folder, _, names in os.walk(top):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if top != "tests" and name.endswith((".c", ".h")):
                    code.append(path)
                elif name == "README.md" or name.endswith(".scd"):
                    documents.append(path)
                elif name.endswith((".c", ".h", ".cu", ".py", ".sh", ".mk", ".awk")) or "." not in name:
                    tests.append(path)
    return code, documents, tests


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def header_of(path):
    """Returns a test's first comment, or a Python file's docstring, each row of a table as a sentence."""
    try:
        text = read(path)
    except UnicodeDecodeError:
        return ""
    return re.sub(r"\n(?=[^\n]*\S {3,}\S)", "\n\n", comment_at_head(path, text))


def comment_at_head(path, text):
    """Returns it without licence, interpreter and shellcheck's lines."""
    if path.endswith((".c", ".h", ".cu")):
        comment = next((found.group(1) for found in BLOCK.finditer(text) if "SPDX" not in found.group(1)), "")
        return re.sub(r"^[ \t]*\*? ?", "", comment, flags=re.M)
    if path.endswith(".py") and '\n"""' in text:
        return text.split('"""')[1]
    script = re.match(r"(?:#!.*\n|# ?(?:SPDX|shellcheck).*\n|set .*\n|\n)*((?:#(?! ?shellcheck).*\n)*)", text)
    return re.sub(r"^# ?", "", script.group(1), flags=re.M)


def prose_of(path, kind):
    """Returns a file's prose: sentences, without code and quotations."""
    text = header_of(path) if kind == "tests" else read(path)
    if kind == "tests":
        pass
    elif path.endswith((".c", ".h")):
        comments = (found.group(1) or found.group(2) or "" for found in COMMENT.finditer(text))
        text = "\n\n".join(re.sub(r"^[ \t]*\*? ?", "", comment, flags=re.M) for comment in comments
                           if "SPDX" not in comment)
    elif path.endswith(".md"):
        text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    else:
        text = re.sub(r"^(?:;.*|\t\t.*)$", "", text, flags=re.M)
    text = re.sub(r"`[^`\n]*`", "`x`", text)
    return re.sub(r"\"[^\"\n]{1,200}\"", "\"x\"", text)


def words_in(text):
    return len(re.findall(r"[A-Za-z][A-Za-z'-]*", text))


def count_prose(kind, paths, figures, places):
    """Adds per 1,000 words each kind of word, and the share of sentences that are longer than they may be."""
    words, sentences, long = 0, 0, 0
    sums = collections.Counter()
    for path in paths:
        text = prose_of(path, kind)
        here = words_in(text)
        words += here
        for name, pattern in WORDS.items():
            found = len(pattern.findall(text))
            sums[name] += found
            places[kind, name].append((found, path))
        lengths = [words_in(sentence) for sentence in SENTENCE.split(text)]
        too_long = sum(length > SENTENCE_WORDS for length in lengths)
        sentences += sum(length > 2 for length in lengths)
        long += too_long
        places[kind, "long"].append((too_long, path))
    for name in WORDS:
        figures[kind, name] = 1000 * sums[name] / words
    figures[kind, "long"] = 100 * long / sentences
    if words < 10000:
        wrong.append(f"{kind}: only {words} words were looked at")


def count_statics(paths, figures, places):
    """Adds the percentage of static functions that have the name of one in another file."""
    where = collections.defaultdict(set)
    for path in paths:
        for name in STATIC.findall(read(path)):
            where[name].add(path)
    functions = sum(len(at) for at in where.values())
    shared = {name: at for name, at in where.items() if len(at) > 1}
    figures["names", "ambiguous"] = 100 * sum(len(at) for at in shared.values()) / functions
    places["names", "ambiguous"] = [(len(at), name) for name, at in shared.items()]
    if functions < 1000:
        wrong.append(f"only {functions} static functions were looked at")


def count_subjects(figures, places):
    """Adds the number of commits since the last tag whose subject is too long or names no component."""
    def git(*args):
        return subprocess.run(("git",) + args, text=True, capture_output=True, check=False)
    figures["commits", "subjects"] = 0
    if not os.path.exists(".git") or git("rev-parse", "HEAD").returncode:
        return
    tag = git("describe", "--tags", "--abbrev=0").stdout.strip()
    subjects = git("log", "--no-merges", "--format=%s", f"{tag}..HEAD" if tag else "-200").stdout.splitlines()
    bad = [subject for subject in subjects if len(subject) > 72 or not re.match(r"[a-z0-9_. ,-]+: ", subject)]
    figures["commits", "subjects"] = len(bad)
    places["commits", "subjects"] = [(1, subject) for subject in bad]


example = "Who asks is told what `who` says. For example, nobody waits."
found = {name: len(pattern.findall(re.sub(r"`[^`]*`", "`x`", example))) for name, pattern in WORDS.items()}
if found != {"who": 1, "what": 1, "nobody": 1, "example": 1} or len(SENTENCE.split(example)) != 2:
    wrong.append(f"of '{example}' it counts {found}, expected one of each")
figures, places = {}, collections.defaultdict(list)
code, documents, tests = files()
count_prose("comments", code, figures, places)
count_prose("documents", documents, figures, places)
count_prose("tests", tests, figures, places)
count_statics([path for path in code if path.endswith(".c")], figures, places)
count_subjects(figures, places)

seen = set()
with open(TABLE, encoding="utf-8") as file:
    for line in file:
        row = line.split("#")[0].split()
        if not row:
            continue
        if len(row) != 5 or row[2] not in ("most", "least") or (row[0], row[1]) not in figures:
            sys.exit(f"{TABLE}: {line.strip()}: expected 'KIND COUNT most|least BOUND GOAL'")
        key, bound, goal = (row[0], row[1]), float(row[3]), float(row[4])
        figure = figures[key]
        seen.add(key)
        beyond = figure > bound if row[2] == "most" else figure < bound
        short = figure > goal if row[2] == "most" else figure < goal
        print(f"{key[0]:10} {key[1]:10} {figure:6.2f}  at {row[2]} {bound:6.2f}  goal {goal:6.2f}")
        if beyond:
            wrong.append(f"{key[0]} {key[1]}: {figure:.2f}, expected at {row[2]} {bound}")
        if row[2] == "most" and (beyond or short and os.environ.get("VERBOSE")):
            print("\n".join(f"    {number} {place}" for number, place in sorted(places[key], reverse=True)[:10]))
wrong += [f"{TABLE} has no bound of {' '.join(key)}" for key in sorted(set(figures) - seen)]
print("\n".join(wrong))
sys.exit(bool(wrong))
