"""Section 5: which of two candidates a pronoun stands for: the set of Rahman and Ng (2012), and WSC273.

texts: what stands before the pronoun and what after it, spaces included: before + candidate + after is the sentence.
choices: the two candidates, as the files spell them.
"""
import re
import xml.etree.ElementTree as ElementTree

from gpt1_jax.data.tasks import reading, tfds_source
from gpt1_jax.data.tasks.example import Example
from gpt1_jax.data.tasks.reading import Row, RowFault, Split
from gpt1_jax.errors import UserError

BLOCK = ('sentence', 'pronoun', 'candidates', 'right candidate')
WSC_SCHEMAS = 273  # the first ones of the collection, which has grown to 285 since


def split_at_pronoun(sentence: str, pronoun: str) -> tuple[str, str]:
    """The text before and after the pronoun, found as a whole word: the first one, as the set's description says.

    Of the 1,880 sentences at hand 1,829 hold it once and 51 more often. Read by hand, the first one is meant in all of
    those but three, where the right candidate is that of a later one ('IE believes they ..., but they do not trust').
    403 hold its letters earlier, inside another word. RowFault where the pronoun is no word of the sentence.
    """
    found = next((match for flags in (0, re.IGNORECASE)
                  if (match := re.search(rf'(?<!\w){re.escape(pronoun)}(?!\w)', sentence, flags))), None)
    if found is None:
        raise RowFault(f'the pronoun {pronoun!r} is no word of the sentence')
    return sentence[:found.start()], sentence[found.end():]


def same(candidate: str) -> str:
    """What two spellings of a candidate share: case, spaces and an article aside."""
    return re.sub(r'^(a|an|the) ', '', ' '.join(candidate.lower().split()))


def right_one(candidates: tuple[str, str], right: str) -> int:
    """Which candidate is the right one. RowFault where it is neither, or could be both."""
    for form in (str, same):
        equal = [form(candidate) == form(right) for candidate in candidates]
        if sum(equal) == 1:
            return equal.index(True)
    raise RowFault(f'the right candidate {right!r} is none of {" and ".join(map(repr, candidates))}')


def example(row_id, before, after, candidates, label):
    if not after.strip():
        raise RowFault('nothing follows the pronoun')
    return Example(row_id, (before, after), candidates, label)


def _blocks(paths, split):
    """Blocks of four lines, parted by blank lines."""
    (path,) = paths
    block, first, position = [], 0, 0
    for number, line in enumerate([*reading.decoded_lines(path), ''], 1):
        if line.strip():
            first = first if block else number
            block.append(line.strip())
        elif block:
            fields = dict(zip(BLOCK, block)) if len(block) == len(BLOCK) else RowFault(
                f'a block of {len(block)} lines, expected {len(BLOCK)} ({", ".join(BLOCK)})')
            yield Row(f'{path}: row {first}', str(position), fields)
            block, position = [], position + 1


def _make_dpr(split, row_id, fields):
    candidates = tuple(candidate.strip() for candidate in reading.field(fields, 'candidates').split(','))
    if len(candidates) != 2 or not all(candidates):
        raise RowFault(f'{len(candidates)} candidates in {fields["candidates"]!r}, expected two parted by a comma')
    before, after = split_at_pronoun(reading.field(fields, 'sentence'), reading.field(fields, 'pronoun'))
    return example(row_id, before, after, candidates, right_one(candidates, reading.field(fields, 'right candidate')))


def _prepared_dpr(directory, split):
    for position, (where, record) in enumerate(tfds_source.records(
            directory, split.tfds[0], ('sentence', 'pronoun', 'candidates', 'label'))):
        candidates, label = record['candidates'], int(record['label'])
        yield Row(where, str(position), {
            'sentence': record['sentence'], 'pronoun': record['pronoun'], 'candidates': ','.join(candidates),
            'right candidate': candidates[label]} if 0 <= label < len(candidates) else RowFault(f'label {label}'))


def _schemas(paths, split):
    """WSCollection.xml of Davis, Morgenstern and Ortiz, with the spelling and the spaces that TFDS gives it."""
    (path,) = paths
    try:
        schemas = list(ElementTree.parse(path).iter('schema'))
    except (ElementTree.ParseError, LookupError, ValueError, OSError) as error:  # or it declares an odd encoding
        raise UserError(f'{path}: not XML ({error})') from None
    for position, schema in enumerate(schemas[:WSC_SCHEMAS]):
        before, pronoun, after = (_clean(schema.findtext(f'text/{tag}')) for tag in ('txt1', 'pron', 'txt2'))
        answers = [_clean(answer.text) for answer in schema.findall('answers/answer')]
        right = _clean(schema.findtext('correctAnswer')).rstrip('.')
        fields = {'before': f'{before} ' if before else '', 'after': after if len(after) == 1 else f' {after}',
                  'answers': answers, 'correctAnswer': right}
        yield Row(f'{path}: schema {position + 1}', str(position), fields if pronoun else RowFault('no text/pron'))


def _clean(text):
    return ' '.join((text or '').replace('recieved', 'received').split())


def _make_wsc(split, row_id, fields):
    answers = tuple(fields['answers'])
    if len(answers) != 2 or not all(answers):
        raise RowFault(f'{len([answer for answer in answers if answer])} answers, expected 2')
    before, after = (re.sub(r'\s+', ' ', fields[name]) for name in ('before', 'after'))
    return example(row_id, before, after, answers,
                   reading.label(reading.field(fields, 'correctAnswer'), ('A', 'B')))


def _prepared_wsc(directory, split):
    records = tfds_source.records(directory, split.tfds[0], (
        'text', 'option1', 'option2', 'pronoun_start', 'pronoun_end', 'label', 'idx'))
    for where, record in sorted(records, key=lambda found: found[1]['idx']):
        text, label = record['text'], int(record['label'])
        yield Row(where, str(record['idx']), {
            'before': text[:record['pronoun_start']], 'after': text[record['pronoun_end']:],
            'answers': [_clean(record['option1']), _clean(record['option2'])],
            'correctAnswer': 'AB'[label] if label in (0, 1) else str(label)})


DPR = reading.two_sources(
    'dpr', 'choice', ('0', '1'), ('accuracy',),
    {name: Split((f'{name}.c.txt',), rows, (f'definite_pronoun_resolution:{name}',))
     for name, rows in (('train', 1322), ('test', 564))},
    official=_blocks, prepared=_prepared_dpr, make=_make_dpr)

WSC273 = reading.two_sources(
    'wsc273', 'choice', ('0', '1'), ('accuracy',),
    {'test': Split(('WSCollection.xml',), WSC_SCHEMAS, ('wsc273:test',))},
    official=_schemas, prepared=_prepared_wsc, make=_make_wsc)
