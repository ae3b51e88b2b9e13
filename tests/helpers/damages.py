"""Makes bad input from good input: changes a file's bytes, its JSON or its place in the directory
as disks, editors, exports and people do. hypothesis draws every choice, so that a failure shrinks
and can be repeated."""

import json

from hypothesis import strategies as st

WORDS = (
    '" "" \' \\ , 0 1 -1 01 1.5 5.0000001 1e999 nan NaN -inf Infinity 0x1 1_0 null true { } [ ] {} '
    '[] ["a"] \\ud800 \\u0000 < > &x; </schema> <schema/> A B it - entailment \x1b[2J \x1a '
    '\u2581 \U0001f600 \ufeff \x00'
).split(' ')
BLANK = ('', ' ', '\t', '\n', '\r', '\r\n', '\n\n\n', '\u2028', '\xa0', 'x' * 140_000)
NOT_UTF8 = (b'\xff', b'\xc3', b'\xe2\x82', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\xc0\x80')
pieces = st.sampled_from([*(text.encode() for text in (*WORDS, *BLANK)), *NOT_UTF8])

# Texts in the place of a JSON value. Some are not JSON, or not JSON that Python would write.
VALUES = (
    'null true false 0 -1 1 2 7 0.5 -0.0 1e5 1e400 NaN Infinity -Infinity 2147483648 "x" "" "1" '
    '"nan" "\\ud800" "\\u0000" "\\n" "a\\u2028b" [] {} [1] ["a"] [null] ["a","b"] {"a":1} [[]] '
    '{"":{}} x \'x\''
).split()
VALUES += ['" "', '', '9' * 400, '"' + 'x' * 5000 + '"']


def damage(draw, path) -> None:
    """Changes a file's content, or sometimes its place."""
    content = path.read_bytes()
    place = draw(st.sampled_from([None] * 48 + ['missing', 'directory', 'dangling', 'loop']))
    if place:
        path.unlink()
    if place == 'directory':
        path.mkdir()
    elif place in ('dangling', 'loop'):
        path.symlink_to('nowhere' if place == 'dangling' else path.name)
    if place:
        return
    changes = [spliced, spliced, column_changed, rewritten]
    if path.suffix in ('.json', '.jsonl') or content[:1] == b'{':
        changes += [json_changed] * 4
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        content = draw(st.sampled_from(changes))(draw, content)
    path.write_bytes(content)


def spliced(draw, content):
    """Drops, doubles or replaces some bytes, lines or cells in a row, or all that follow."""
    separator = draw(st.sampled_from((b'', b'\n', b'\n', b'\t', b',', b' ', b'"', b'>')))
    parts = content.split(separator) if separator else [bytes([byte]) for byte in content]
    start = draw(st.integers(0, len(parts)))
    end = start + draw(st.sampled_from((0, 1, 1, 1, 2, 10, len(parts))))
    piece = st.lists(pieces | st.binary(max_size=2), max_size=1)
    parts[start:end] = draw(piece | st.just(2 * parts[start:end]))
    return separator.join(parts)


def column_changed(draw, content):
    """Drops or replaces one cell of every line."""
    separator = draw(st.sampled_from((b'\t', b',')))
    column = draw(st.integers(0, 10))
    new = draw(st.lists(pieces, max_size=1))
    lines = [line.split(separator) for line in content.split(b'\n')]
    for cells in lines[: 10**6 // (1 + sum(map(len, new)))]:
        cells[column : column + 1] = new
    return b'\n'.join(map(separator.join, lines))


def rewritten(draw, content):
    """Other line ends and another encoding."""
    text = content.decode('utf-8', 'replace')
    text = text.replace('\n', draw(st.sampled_from(('\n', '\r\n', '\r', '\n\r', '\u2028'))))
    encodings = 'utf-8 utf-16 utf-32 utf-8-sig latin-1 cp037'
    return text.encode(draw(st.sampled_from(encodings.split())), 'replace')


def json_changed(draw, content):
    """Replaces, removes or adds one value of a JSON text, or of one line of JSON lines."""
    lines = [content]
    try:
        json.loads(content)
    except ValueError:
        lines = content.split(b'\n')
    line = draw(st.integers(0, len(lines) - 1))
    try:
        whole = [json.loads(lines[line])]
    except ValueError:
        return spliced(draw, content)
    container, key = draw(st.sampled_from(list(places(whole))))
    container[key] = '@raw@'
    raw = draw(st.sampled_from([None, *VALUES]))
    if raw is None:
        del container[key]
    text = ','.join(map(json.dumps, whole)).replace('"@raw@"', raw or '')
    lines[line] = text.encode('utf-8', 'surrogatepass')
    return b'\n'.join(lines)


def places(value):
    """(container, key) of every value inside a JSON value, and of one more in every object."""
    is_object = isinstance(value, dict)
    if is_object or isinstance(value, list):
        yield from ((value, key) for key in ([*value, 'more'] if is_object else range(len(value))))
        for inside in value.values() if is_object else value:
            yield from places(inside)
