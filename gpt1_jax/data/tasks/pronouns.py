"""Section 5: which of two candidates a pronoun refers to: the set of Rahman and Ng (2012), and WSC273.

texts:   the text before the pronoun and the text after it, with their spaces: before + candidate + after is a sentence.
choices: the two candidates, spelt as in the files.

WSC273 is read as TFDS has it: "recieved", in one schema of WSCollection.xml, becomes "received". A model gives the two
spellings different scores, so the answer to this schema may differ from that for the XML as published.
"""
import functools
import itertools
import numbers
import re
import xml.etree.ElementTree as ElementTree

from gpt1_jax.data.tasks import parquet_source, reading, tfds_source
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.data.tasks.reading import Row, RowFault, Split
from gpt1_jax.errors import UserError

BLOCK = ('sentence', 'pronoun', 'candidates', 'right candidate')
WSC_SCHEMAS = 273  # the first ones of the collection, which has 285 by now


def split_at_pronoun(sentence: str, pronoun: str) -> tuple[str, str]:
    """The text before and after the pronoun: its first occurrence as a whole word, as described in the set.

    51 of the set's 1,880 sentences contain the pronoun several times; read by hand, the first is meant in all but 3.
    403 contain its letters earlier, inside another word. RowFault if the sentence lacks the pronoun as a word.
    """
    word = rf'(?<!\w){re.escape(pronoun)}(?!\w)'
    found = re.search(word, sentence) or re.search(word, sentence, re.IGNORECASE)
    if not found:
        raise RowFault(f'the pronoun {pronoun!r} is no word of the sentence')
    return sentence[:found.start()], sentence[found.end():]


def same(candidate: str) -> str:
    """A candidate without case, spaces and article, so that spellings of it can be compared."""
    return re.sub(r'^(a|an|the) ', '', ' '.join(candidate.lower().split()))


def right_one(candidates: tuple[str, str], right: str) -> int:
    """The index of the right candidate. RowFault if it is neither, or could be both."""
    for form in (str, same):
        equal = [form(candidate) == form(right) for candidate in candidates]
        if sum(equal) == 1:
            return equal.index(True)
    raise RowFault(f'the right candidate {right!r} is not one of {" and ".join(map(repr, candidates))}')


def _example(row_id, before, after, candidates, label):
    if not after.strip():
        raise RowFault('nothing follows the pronoun')
    return Example(row_id, (before, after), candidates, label)


def _blocks(paths, split):
    """Blocks of four lines, separated by blank lines."""
    (path,) = paths
    lines = list(enumerate(reading.decoded_lines(path), 1))
    blocks = [list(block) for blank, block in itertools.groupby(lines, lambda line: not line[1].strip()) if not blank]
    for position, block in enumerate(blocks):
        fields: dict | RowFault = dict(zip(BLOCK, (line.strip() for _, line in block)))
        if len(block) != len(BLOCK):
            fields = RowFault(f'a block of {len(block)} lines, expected {len(BLOCK)} ({", ".join(BLOCK)})')
        yield Row(f'{path}: row {block[0][0]}', str(position), fields)


def _make_dpr(split, row_id, fields):
    candidates = tuple(candidate.strip() for candidate in reading.field(fields, 'candidates').split(','))
    if len(candidates) != 2 or not all(candidates):
        raise RowFault(f'{len(candidates)} candidates in {fields["candidates"]!r}, expected two separated by a comma')
    before, after = split_at_pronoun(reading.field(fields, 'sentence'), reading.field(fields, 'pronoun'))
    return _example(row_id, before, after, candidates, right_one(candidates, reading.field(fields, 'right candidate')))


def _typed_dpr(library, directory, split, sources):
    records = library.records(directory, sources[0], ('sentence', 'pronoun', 'candidates', 'label'),
                              {'label': ('0', '1')})
    for position, (where, record) in enumerate(records):
        candidates, label = record['candidates'], record['label']
        fields = RowFault(f'label {label}')
        if isinstance(candidates, list) and isinstance(label, numbers.Integral) and 0 <= label < len(candidates):
            fields = record | {'candidates': ','.join(candidates), 'right candidate': candidates[label]}
        yield Row(where, str(position), fields)


def _schemas(paths, split):
    """WSCollection.xml of Davis, Morgenstern and Ortiz."""
    (path,) = paths
    try:  # an unknown declared encoding raises ValueError or LookupError
        schemas = list(ElementTree.parse(path).iter('schema'))
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise UserError(f'{path}: not XML ({error})') from None
    for position, schema in enumerate(schemas[:WSC_SCHEMAS]):
        before, pronoun, after = (_clean(schema.findtext(f'text/{tag}')) for tag in ('txt1', 'pron', 'txt2'))
        answers = [answer.text for answer in schema.findall('answers/answer')]
        fields = {'before': before, 'after': after, 'answers': answers,
                  'correctAnswer': _clean(schema.findtext('correctAnswer')).rstrip('.')}
        yield Row(f'{path}: schema {position + 1}', str(position), fields if pronoun else RowFault('no text/pron'))


def _clean(text):
    return ' '.join((text or '').replace('recieved', 'received').split())


def _make_wsc(split, row_id, fields):
    """The Example of a schema, with the spelling and the spaces that TFDS gives it."""
    answers = tuple(map(_clean, fields['answers'] or ()))
    if len(answers) != 2 or not all(answers):
        raise RowFault(f'{len(list(filter(None, answers)))} answers, expected 2')
    before, after = _clean(fields['before']), _clean(fields['after'])
    if before:
        before += ' '
    if len(after) != 1:  # more than a full stop
        after = ' ' + after
    return _example(row_id, before, after, answers, reading.label(reading.field(fields, 'correctAnswer'), ('A', 'B')))


def _tfds_wsc(directory, split, sources):
    records = tfds_source.records(directory, sources[0], (
        'text', 'option1', 'option2', 'pronoun_start', 'pronoun_end', 'label', 'idx'))
    for where, record in sorted(records, key=lambda found: found[1]['idx']):
        yield Row(where, str(record['idx']), _wsc_fields(
            record['text'], record['pronoun_start'], record['pronoun_end'], (record['option1'], record['option2']),
            record['label']))


def _parquet_wsc(directory, split, sources):
    """The rows of winograd_wsc, whose texts are the parts of the XML's schemas with one space between them."""
    wanted = ('text', 'pronoun', 'pronoun_loc', 'options', 'label')
    for position, (where, record) in enumerate(parquet_source.records(
            directory, sources[0], wanted, {'label': ('0', '1')})):
        try:
            text, pronoun = (reading.field(record, name) for name in ('text', 'pronoun'))
            start = record['pronoun_loc']
            if not isinstance(start, int) or text[start:start + len(pronoun)] != pronoun:
                raise RowFault(f'the pronoun {pronoun!r} is not at {start}')
            fields = _wsc_fields(text, start, start + len(pronoun), record['options'], record['label'])
        except RowFault as fault:
            fields = fault
        yield Row(where, str(position), fields)


def _wsc_fields(text, start, end, options, label):
    return {'before': text[:start], 'after': text[end:], 'answers': options,
            'correctAnswer': 'AB'[label] if label in (0, 1) else str(label)}


DPR = reading.labelled_set(
    'dpr', 'choice', ('0', '1'), ('accuracy',),
    {name: Split((f'{name}.c.txt',), rows, (f'definite_pronoun_resolution:{name}',))
     for name, rows in (('train', 1322), ('test', 564))},
    _make_dpr, _blocks, functools.partial(_typed_dpr, tfds_source), functools.partial(_typed_dpr, parquet_source),
    n_texts=2)

WSC273 = reading.labelled_set(
    'wsc273', 'choice', ('0', '1'), ('accuracy',),
    {'test': Split(('WSCollection.xml',), WSC_SCHEMAS, ('wsc273:test',))},
    _make_wsc, _schemas, _tfds_wsc, _parquet_wsc, n_texts=2)
