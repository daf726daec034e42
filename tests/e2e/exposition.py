# SPDX-License-Identifier: MIT
"""Prometheus' text exposition format 0.0.4, read strictly.

parse(TEXT) gives {metric: (type, help, {labels as a sorted tuple: value})} and refuses text that a
scraper would refuse or misread. Examples are a group in two places, a sample without TYPE, a name
twice, and a wrong escape or character. Made after the format's public description."""
import re

NAME = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
VALUE = re.compile(r'[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|Inf|NaN)$')


def labels_of(text):
    labels, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, 'label at: ' + text[at:]
        assert match.group(1) not in labels, 'label twice: ' + text
        labels[match.group(1)] = re.sub(r'\\(.)', lambda m: '\n' if m.group(1) == 'n' else m.group(1),
                                        match.group(2))
        at = match.end()
        if at < len(text):
            assert text[at] == ',', 'expected a comma: ' + text
            at += 1
    return tuple(sorted(labels.items()))


def parse(data):
    text = data.decode('utf-8')  # anything else is an error
    assert text.endswith('\n'), 'the last line has no end'
    metrics, current = {}, None
    for line in text.split('\n')[:-1]:
        if line.startswith('# HELP '):
            current, meaning = line[7:].split(' ', 1)
            assert NAME.fullmatch(current) and current not in metrics, 'HELP: ' + line
            assert meaning and not re.search(r'\\[^\\n]', meaning), 'HELP: ' + line
            metrics[current] = [None, meaning, {}]
        elif line.startswith('# TYPE '):
            name, kind = line[7:].split(' ')
            assert name == current and metrics[name][0] is None, 'TYPE: ' + line
            assert kind in ('counter', 'gauge'), 'TYPE: ' + line
            assert (kind == 'counter') == name.endswith('_total'), 'TYPE: ' + line
            metrics[name][0] = kind
        else:
            match = re.fullmatch(r'([^{ ]+)(?:\{(.*)\})? (\S+)', line)
            assert match, 'sample: ' + line
            name, labels, value = match.groups()
            assert name == current and metrics[name][0], 'outside of its group: ' + line
            labels = labels_of(labels or '')
            assert labels not in metrics[name][2], 'twice: ' + line
            assert VALUE.match(value), 'value: ' + line
            metrics[name][2][labels] = float(value)
    return metrics
