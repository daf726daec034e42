#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lists every line that the tool, the shim and the plugin print, from the sources, in BUILD/messages.
Holds the lines against the rules of messages: no word that a user cannot know
(tests/house/words_of_messages), no line of one value alone, and a next step for each refusal of
memory. Takes no exceptions.

test_messages.py [ROOT]
"""

import glob
import os
import re
import sys

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
build = os.path.abspath(os.environ.get("BUILD", "build"))
os.chdir(root)

# The functions that print, and those that make a sentence for one of them.
PRINTS = (r"log_\w+|complain\w*|fail\w*|usage_error|finding|config_fail\w*|config_warn|slurm_error|slurm_info|puts|printf"
          r"|refusal_say|hint\w*")
LITERAL = r'"((?:\\.|[^"\\])*)"'
TABLE = re.compile(r"^static const (?:char \*const|struct \w*words?\w*|struct \{)[^;{]*\{(.*?)^\}", re.M | re.S)


def without_comments(text):
    text = re.sub(r"'(?:\\.|[^'\\])'", "' '", text)
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def messages_of(path):
    """Returns the texts of a file: arguments of what prints, and tables of sentences."""
    with open(path, encoding="utf-8") as file:
        text = without_comments(file.read())
    texts = []
    for call in re.finditer(rf"\b(?:{PRINTS})\(((?:{LITERAL}|[^;\"])*?)\);", text, re.S):
        texts += split(call.group(1))
    if "printf" in text or "_text" in text or "words" in text:
        for table in re.finditer(r"\{(?:[^{}\"]|" + LITERAL + r")*\}", text):
            texts += [t for t in split(table.group(0)) if t.count(" ") >= 2]
    for returned in re.finditer(r"\breturn ((?:[^;\"]|" + LITERAL + r")*);", text):
        texts += [t for t in split(returned.group(1)) if t.count(" ") >= 2]
    return texts


def split(arguments):
    """Returns the literals among arguments; adjoining ones are one text."""
    texts = []
    for run in re.finditer(rf"(?:{LITERAL}(?:\s|PRIu64|PRIx64|PRId64|CONFIG_SYSTEM_FILE)*)+", arguments):
        texts.append("".join(re.findall(LITERAL, run.group(0))))
    return texts


files = sorted(path for top in ("core", "shim", "tools") for path in glob.glob(f"{top}/**/*.[ch]", recursive=True))
lines, wrong = set(), []
with open("tests/house/words_of_messages", encoding="utf-8") as file:
    words = [line.split("#")[0].strip() for line in file]
banned = re.compile(r"\b(?:" + "|".join(word for word in words if word) + r")\b", re.I)
for path in files:
    for text in messages_of(path):
        if not re.search(r"[A-Za-z]{3} +\S", text):  # a name, a unit, a separator
            continue
        lines.add(text)
        found = banned.search(text)
        if found:
            wrong.append(f"{path}: '{found.group(0)}' in a message: {text}")

# Each reason of a refusal has its sentence and its next step.
with open("core/ledger/codes.h", encoding="utf-8") as file:
    reasons = re.findall(r"X\((REFUSED_\w+),", file.read())
with open("core/ledger/refused.c", encoding="utf-8") as file:
    refused = without_comments(file.read())
for reason in reasons:
    if f"case {reason}:" not in refused:
        wrong.append(f"core/ledger/refused.c: no sentence for {reason}")
advice = re.findall(rf"\(struct refused_words\)\{{((?:{LITERAL}|[^}}\"])*)\}}", refused)
for sentence in advice:
    if len(split(sentence[0])) != 2:
        wrong.append(f"core/ledger/refused.c: no next step: {sentence[0]}")

os.makedirs(build, exist_ok=True)
with open(os.path.join(build, "messages"), "w", encoding="utf-8") as file:
    file.write("".join(line + "\n" for line in sorted(lines)))
if len(lines) < 400 or len(advice) < 10:
    wrong.append(f"only {len(lines)} lines and {len(advice)} sentences about refusals were found")
print("\n".join(wrong))
print(f"{len(lines)} lines of messages: {len(wrong)} of what is wrong")
sys.exit(bool(wrong))
