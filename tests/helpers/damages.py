"""Makes bad input from good input: changes a file's bytes, its JSON or its place in the directory
as disks, editors, exports and people do. hypothesis draws every choice, so that a failure shrinks
and can be repeated."""

import json
import os

from hypothesis import strategies as st

# Bytes that are put into a file, or in the place of one of its cells.
PIECES = (
    b'',
    b' ',
    b'"',
    b'""',
    b"'",
    b'\\',
    b'\x00',
    b'\t',
    b',',
    b'\n',
    b'\r',
    b'\r\n',
    b'\n\n\n',
    b'\x1a',
    b'\x1b[2J',
    # Not UTF-8
    b'\xef\xbb\xbf',
    b'\xff',
    b'\xc3',
    b'\xe2\x82',
    b'\xed\xa0\x80',
    b'\xf4\x90\x80\x80',
    b'\xc0\x80',
    '\u2028'.encode(),
    '\xa0'.encode(),
    '\u2581'.encode(),
    '\U0001f600'.encode(),
    b'0',
    b'1',
    b'-1',
    b'01',
    b'1.5',
    b'5.0000001',
    b'1e999',
    b'nan',
    b'NaN',
    b'-inf',
    b'Infinity',
    b'0x1',
    b'1_0',
    b'x' * 140_000,
    b'"' + b'x' * 140_000,
    b'null',
    b'true',
    b'{',
    b'}',
    b'[',
    b']',
    b'{}',
    b'[]',
    b'["a"]',
    b'\\ud800',
    b'\\u0000',
    b'<',
    b'>',
    b'&x;',
    b'</schema>',
    b'<schema/>',
    b'<?xml version="1.0" encoding="no-such"?>',
    b'<?xml version="1.0" encoding="utf-32"?>',
    b'<!DOCTYPE a [<!ENTITY x "y">]>',
    b'A',
    b'B',
    b'it',
    b'-',
    b'entailment',
)

# Texts that are put in the place of a JSON value. Some are not JSON, or not JSON that Python would
# write.
VALUES = (
    'null',
    'true',
    'false',
    '0',
    '-1',
    '1',
    '2',
    '7',
    '0.5',
    '-0.0',
    '1e5',
    '1e400',
    'NaN',
    'Infinity',
    '-Infinity',
    '2147483648',
    '1' + '0' * 30,
    '9' * 400,
    '"x"',
    '""',
    '" "',
    '"1"',
    '"nan"',
    '"\\ud800"',
    '"\\u0000"',
    '"\\n"',
    '"a\\u2028b"',
    '"' + 'x' * 5000 + '"',
    '[]',
    '{}',
    '[1]',
    '["a"]',
    '["a", "b"]',
    '[null]',
    '{"a": 1}',
    '[[]]',
    '{"": {}}',
    'x',
    '',
    "'x'",
)

ODD_NAMES = ('data', 'two words', 'a[b]*', 'café')


def data(draw, content: bytes, is_json: bool) -> bytes:
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        kinds = (*BYTES, *[in_json] * len(BYTES)) if is_json else BYTES
        content = draw(st.sampled_from(kinds))(draw, content)
    return content


def place(draw, path) -> None:
    """Replaces a file by nothing, a directory, a link to nothing or a link to itself."""
    kind = draw(st.sampled_from(('missing', 'directory', 'dangling', 'loop')))
    path.unlink()
    if kind == 'directory':
        path.mkdir()
    elif kind != 'missing':
        os.symlink('nowhere' if kind == 'dangling' else path.name, path)


def somewhere(draw, content):
    return draw(st.integers(0, max(0, len(content) - 1)))


def flipped(draw, content):
    content = bytearray(content)
    if content:
        content[somewhere(draw, content)] ^= draw(st.integers(1, 255))
    return bytes(content)


def cut(draw, content):
    return content[: somewhere(draw, content)]


def hole(draw, content):
    start = somewhere(draw, content)
    return content[:start] + content[start + draw(st.sampled_from((1, 2, 3, 10, 100))) :]


def inserted(draw, content):
    at = draw(st.one_of(st.just(0), st.just(len(content)), st.integers(0, len(content))))
    return content[:at] + draw(st.sampled_from(PIECES)) + content[at:]


def line_changed(draw, content):
    lines = content.split(b'\n')
    i = somewhere(draw, lines)
    change = draw(st.sampled_from(('remove', 'double', 'blank', 'move')))
    line = lines.pop(i)
    if change == 'double':
        lines[i:i] = [line, line]
    elif change == 'blank':
        lines.insert(i, b'')
    elif change == 'move':
        lines.insert(somewhere(draw, lines), line)
    return b'\n'.join(lines)


def cell_changed(draw, content):
    """Drops, doubles or replaces a cell of one line, or of all lines."""
    separator = draw(st.sampled_from((b'\t', b',', b' ', b'"', b'>')))
    lines = content.split(b'\n')
    everywhere = draw(st.sampled_from((False, False, True)))
    chosen = range(len(lines)) if everywhere else [somewhere(draw, lines)]
    column = draw(st.integers(0, 15))
    new = draw(st.one_of(st.just(None), st.just('double'), st.sampled_from(PIECES)))
    for i in chosen:
        cells = lines[i].split(separator)
        at = column % len(cells)
        cells[at : at + 1] = [] if new is None else [cells[at]] * 2 if new == 'double' else [new]
        lines[i] = separator.join(cells)
        if len(content) > 100_000 or sum(map(len, lines)) > 1_000_000:  # a huge cell in every line
            break
    return b'\n'.join(lines)


def line_ends(draw, content):
    return content.replace(
        b'\n', draw(st.sampled_from((b'\r\n', b'\r', b'\n\r', '\u2028'.encode())))
    )


def recoded(draw, content):
    text = content.decode('utf-8', 'replace')
    return text.encode(
        draw(st.sampled_from(('utf-16', 'utf-32', 'utf-8-sig', 'latin-1', 'cp037'))), 'replace'
    )


def emptied(draw, content):
    return draw(
        st.sampled_from(
            (b'', b'\n', b'\x00' * 100, b'\xef\xbb\xbf', b' ', b'{}', b'[]', b'\n' * 50)
        )
    )


def twice(draw, content):
    return content + content


BYTES = (
    flipped,
    cut,
    hole,
    inserted,
    inserted,
    line_changed,
    cell_changed,
    cell_changed,
    line_ends,
    recoded,
    emptied,
    twice,
)


def in_json(draw, content):
    """Replaces, removes or repeats one value of a JSON text, or of one line of JSON lines."""
    lines = [content]
    try:
        json.loads(content)
    except ValueError:
        lines = content.split(b'\n')
    i = somewhere(draw, lines)
    try:
        whole = [json.loads(lines[i])]
    except ValueError:
        return inserted(draw, content)
    container, key = draw(st.sampled_from(list(places(whole))))
    change = draw(st.sampled_from(('replace', 'replace', 'replace', 'remove', 'twice', 'more')))
    raw = draw(st.sampled_from(VALUES))
    if change == 'remove':
        del container[key]
    elif change == 'twice' and isinstance(container, dict):
        container['@twice@'] = raw  # under the same name, in the text
    elif change == 'more' and isinstance(container[key], dict):
        container[key]['more'] = '@raw@'
    elif change == 'more' and isinstance(container[key], list):
        container[key].append('@raw@')
    else:
        container[key] = '@raw@'
    text = json.dumps(whole[0] if whole else '@raw@')
    text = text.replace('"@raw@"', raw).replace(
        '"@twice@": ' + json.dumps(raw), f'{json.dumps(key)}: {raw}'
    )
    lines[i] = text.encode('utf-8', 'surrogatepass')
    return b'\n'.join(lines)


def places(value):
    """(container, key) of every value inside a JSON value, containers before their contents."""
    waiting = [value]
    while waiting:
        container = waiting.pop()
        for key in list(container) if isinstance(container, dict) else range(len(container)):
            yield container, key
            if isinstance(container[key], (dict, list)):
                waiting.append(container[key])
