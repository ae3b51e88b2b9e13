"""Writes hand-written rows as the sets' publishers do, for sets that are not beside the clone."""

import json
import random

from tiny import sentence

# premise | hypothesis | three-way label | score 0-5 | whether one paraphrases the other
PAIRS = [
    tuple(line.split(' | '))
    for line in """\
A man is playing a guitar. | A man plays an instrument. | entailment | 4.200 | 1
A man is playing a guitar. | A man is asleep. | contradiction | 0.600 | 0
A man is playing a guitar. | A man is famous. | neutral | 1.800 | 0
Two dogs run on the beach. | Animals are outdoors. | entailment | 3.000 | 1
Two dogs run on the beach. | Two dogs sleep indoors. | contradiction | 1.000 | 0
Two dogs run on the beach. | The dogs chase a ball. | neutral | 2.333 | 0
"I won," she said. | She said that she had won. | entailment | 4.750 | 1
"I won," she said. | She said "nothing. | contradiction | 0.200 | 0
"I won," she said. | She had trained for years. | neutral | 1.400 | 0
The café closed at 5. | The café was shut at 6. | entailment | 3.600 | 1
The café closed at 5. | The café never closes. | contradiction | 0.800 | 0
The café closed at 5. | The café is in Paris. | neutral | 1.200 | 0
Plants need light to grow. | Light is needed for growth. | entailment | 5.000 | 1
Plants need light to grow. | Plants grow in the dark. | contradiction | 0.000 | 0
Plants need light to grow. | Roses grow best in June. | neutral | 1.600 | 0
Rain fell all night long. | It rained. | entailment | 4.000 | 1
Rain fell all night long. | The night was dry. | contradiction | 0.400 | 0
Rain fell all night long. | The river rose. | neutral | 2.000 | 0
He sold the old car. | The car has a new owner. | entailment | 3.800 | 1
He sold the old car. | He still drives the car he sold. | contradiction | 1.083 | 0
He sold the old car. | The car was red. | neutral | 0.917 | 0""".splitlines()
]

# four sentences, two endings, which one is right
STORIES = [
    (
        f'{name} wanted a {thing}.',
        f'{name} saved money for weeks.',
        'It was hard.',
        f'At last, the {thing} was there.',
        *(
            (f'{name} was glad.', f'{name} threw the {thing} away.')
            if i % 3
            else (f'{name} had never wanted it.', f'{name} smiled, and went home.')
        ),
        '1' if i % 3 else '2',
    )
    for i, (name, thing) in enumerate(
        zip(
            'Ann Bob Cid Dee Eve Fay Gus Hal Ida Jon Kim Leo Mia Ned Oda Pam Quin Rob Sue '
            'Tom'.split(),
            'bike kite lamp book drum boat doll coat ring desk clock piano tent chair map rug hat '
            'bell vase globe'.split(),
        )
    )
]

# before, after, first and second candidate, which one is right
SCHEMAS = [
    schema
    for first, second, verb, why, other in [
        ('The farmer', 'the fox', 'chased', 'was angry', 'was hungry'),
        ('The dog', 'the horse', 'helped', 'was kind', 'was lame'),
        ('The cup', 'the stone', 'fell on', 'broke', 'stayed whole'),
        ('The boy', 'the baby', 'woke', 'was loud', 'slept lightly'),
        ('The ball', 'the box', 'did not fit in', 'was too big', 'was too small'),
        ('The crane', 'the crate', 'lifted', 'was strong', 'was light'),
    ]
    for schema in (
        (f'{first} {verb} {second} because', f'{why}.', first, second, 0),
        (f'{first} {verb} {second} because', f'{other}.', first, second, 1),
    )
]

PASSAGES = {
    'middle': [
        {
            'id': f'middle{number}.txt',
            'article': f'Li has {number} birds.\nThey sing "in the morning". He likes it.',
            'questions': [
                'How many birds has Li?',
                'When do they sing?  _ .',
                'What does Li like?',
            ],
            'options': [
                [str(number), '0', '1,000', 'Nobody knows.'],
                ['At night.', 'In the morning.', 'At noon.', 'Never.'],
                ['Cats.', 'Fish.', 'The song.', 'Rain.'],
            ],
            'answers': ['A', 'B', 'C'],
        }
        for number in (10, 9, 100)
    ],
    'high': [
        {
            'id': f'high{number}.txt',
            'article': f'In {number} a café opened. The owner\u2019s aim was profit.',
            'questions': ['What opened?', 'When?', 'The aim was  _ .', 'Where?'],
            'options': [
                ['A school.', 'A shop.', 'A bank.', 'A café.'],
                [f'In {number}.', 'Never.', 'In 1.', 'In 2.'],
                ['art', 'fame', 'money', 'peace'],
                ['Here.', 'There.', 'Nowhere.', 'It is not said.'],
            ],
            'answers': ['D', 'A', 'C', 'D'],
        }
        for number in (1900, 1901, 1902)
    ],
}


def tsv(path, rows, header=None, mark=False):
    """Write rows as GLUE does: tabs, no quoting; mark: with a byte-order mark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ['\t'.join(map(str, row)) for row in ([header] if header else []) + list(rows)]
    path.write_text('\ufeff' * mark + '\n'.join(lines) + '\n', encoding='utf-8', newline='\n')
    return path


STORY_HEADER = (
    'InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,RandomFifthSentenceQuiz1,'
    'RandomFifthSentenceQuiz2,AnswerRightEnding\n'
)


def story_cloze(path, stories=None):
    rows = [
        ','.join([f'id-{i}', *(f'"{cell}"' if ',' in cell else cell for cell in story)])
        for i, story in enumerate(STORIES if stories is None else stories)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STORY_HEADER + '\n'.join(rows) + '\n', encoding='utf-8')
    return path


def race(root, split, passages=PASSAGES):
    """Write RACE/SPLIT/LEVEL/12.txt."""
    for level, found in passages.items():
        (root / split / level).mkdir(parents=True)
        for passage in found:
            (root / split / level / passage['id'].removeprefix(level)).write_text(
                json.dumps(passage)
            )
    return root


def definite_pronouns(path, blocks):
    """Write blocks of sentence, pronoun, candidates, right candidate."""
    path.write_text(''.join('\n'.join(block) + '\n\n' for block in blocks), encoding='utf-8')
    return path


# set, linguistics_term, field: two sets of one phenomenon, as s-selection is counted
MINIMAL_PAIR_SETS = [
    ('birds_1', 'argument_structure', 'syntax'),
    ('birds_2', 's-selection', 'syntax'),
    ('hills', 'binding', 'syntax/semantics'),
    ('rivers', 'quantifiers', 'semantics'),
]


def blimp(directory, pairs=8):
    """Write minimal pairs of made-up sentences, and return the directory.

    Pair 3 of birds_1 is one sentence twice. So is pair 2 of hills, apart from capitals.
    """
    directory.mkdir(parents=True)
    for name, term, field in MINIMAL_PAIR_SETS:
        with open(directory / f'{name}.jsonl', 'w') as file:
            for i in range(pairs):
                rng = random.Random(f'{name} {i}')
                good = sentence(rng)
                bad = sentence(rng)
                if (name, i) == ('birds_1', 3):
                    bad = good
                if (name, i) == ('hills', 2):
                    bad = good.upper()
                row = {'sentence_good': good, 'sentence_bad': bad, 'field': field}
                row |= {'linguistics_term': term, 'UID': name, 'pairID': str(i)}
                print(json.dumps(row), file=file)
    return directory
