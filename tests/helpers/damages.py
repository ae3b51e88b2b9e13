"""Bad input out of good: a file's bytes, its JSON or its place in the directory changed as disks, editors, exports and
people change them. Every choice is drawn from hypothesis, so that a failure shrinks and comes again."""
import json
import os

from hypothesis import strategies as st

# What is put into a file, or in the place of one of its cells.
PIECES = (
    b'', b' ', b'"', b'""', b"'", b'\\', b'\x00', b'\t', b',', b'\n', b'\r', b'\r\n', b'\n\n\n', b'\x1a', b'\x1b[2J',
    b'\xef\xbb\xbf', b'\xff', b'\xc3', b'\xe2\x82', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\xc0\x80',  # no UTF-8
    '\u2028'.encode(), '\xa0'.encode(), '\u2581'.encode(), '\U0001f600'.encode(),
    b'0', b'1', b'-1', b'01', b'1.5', b'5.0000001', b'1e999', b'nan', b'NaN', b'-inf', b'Infinity', b'0x1', b'1_0',
    b'x' * 140_000, b'"' + b'x' * 140_000, b'null', b'true', b'{', b'}', b'[', b']',
    b'{}', b'[]', b'["a"]', b'\\ud800', b'\\u0000', b'<', b'>', b'&x;', b'</schema>',
    b'<schema/>', b'<?xml version="1.0" encoding="no-such"?>', b'<?xml version="1.0" encoding="utf-32"?>',
    b'<!DOCTYPE a [<!ENTITY x "y">]>', b'A', b'B', b'it', b'-', b'entailment')

# What is put in the place of a JSON value, as text, since some of it is no JSON, or none that Python would write.
VALUES = (
    'null', 'true', 'false', '0', '-1', '1', '2', '7', '0.5', '-0.0', '1e5', '1e400', 'NaN', 'Infinity', '-Infinity',
    '2147483648', '1' + '0' * 30, '9' * 400, '"x"', '""', '" "', '"1"', '"nan"',
    '"\\ud800"', '"\\u0000"', '"\\n"', '"a\\u2028b"', '"' + 'x' * 5000 + '"', '[]', '{}', '[1]', '["a"]', '["a", "b"]',
    '[null]', '{"a": 1}', '[[]]', '{"": {}}', 'x', '', "'x'")

ODD_NAMES = ('data', 'two words', 'a[b]*', 'café')


def data(draw, content: bytes, is_json: bool) -> bytes:
    """The content after one change or a few."""
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        kinds = (*BYTES, *[in_json] * len(BYTES)) if is_json else BYTES
        content = draw(st.sampled_from(kinds))(draw, content)
    return content


def place(draw, path) -> None:
    """Something else where a file is: nothing, a directory, a link to nothing or to itself."""
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
    """The rest of the content gone, or a few bytes inside it."""
    start = somewhere(draw, content)
    return content[:start] + content[start + draw(st.sampled_from((1, 2, 3, 10, 100, len(content)))):]


def inserted(draw, content):
    at = draw(st.one_of(st.just(0), st.just(len(content)), st.integers(0, len(content))))
    return content[:at] + draw(st.sampled_from(PIECES)) + content[at:]


def part_changed(draw, content):
    """A line, or a cell of one line or of all: removed, doubled, or something else in its place."""
    lines = content.split(b'\n')
    separator, column = draw(st.sampled_from((b'\n', b'\n', b'\t', b',', b' ', b'"', b'>'))), draw(st.integers(0, 15))
    new = draw(st.one_of(st.sampled_from(('removed', 'doubled')), st.sampled_from(PIECES)))
    everywhere = separator != b'\n' and draw(st.sampled_from((False, False, True)))
    for i in range(len(lines)) if everywhere else [somewhere(draw, lines)]:
        cells = lines[i].split(separator)
        at = column % len(cells)
        cells[at:at + 1] = {'removed': [], 'doubled': [cells[at]] * 2}.get(new, [new])
        lines[i:i + 1] = cells if separator == b'\n' else [separator.join(cells)]
        if sum(map(len, lines)) > 1_000_000:  # a huge cell in every line
            break
    return b'\n'.join(lines)


def whole(draw, content):
    """Other line ends or another encoding; nothing, or next to it; everything twice."""
    text = content.decode('utf-8', 'replace')
    return draw(st.sampled_from((
        *(content.replace(b'\n', end) for end in (b'\r\n', b'\r', '\u2028'.encode())),
        *(text.encode(encoding, 'replace') for encoding in ('utf-16', 'utf-32', 'utf-8-sig', 'latin-1', 'cp037')),
        b'', b'\n' * 50, b'\x00' * 100, b'\xef\xbb\xbf', b'{}', b'[]', content + content)))


BYTES = (flipped, cut, cut, inserted, inserted, part_changed, part_changed, part_changed, whole, whole, whole)


def in_json(draw, content):
    """One value of a JSON text, or of one line of JSON lines: replaced or removed."""
    lines = [content]
    try:
        json.loads(content)
    except ValueError:
        lines = content.split(b'\n')
    i = somewhere(draw, lines)
    try:
        value = [json.loads(lines[i])]
    except ValueError:
        return inserted(draw, content)
    container, key = draw(st.sampled_from(list(places(value))))
    if draw(st.integers(0, 4)):
        container[key] = '@raw@'
    else:
        del container[key]
    text = json.dumps(value[0] if value else '').replace('"@raw@"', draw(st.sampled_from(VALUES)))
    lines[i] = text.encode('utf-8', 'surrogatepass')
    return b'\n'.join(lines)


def places(value):
    """(container, key) of every value inside a JSON value."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])
