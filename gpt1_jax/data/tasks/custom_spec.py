"""The config fields that describe a user's labelled set, and their checks before any file is
read."""

import collections
import dataclasses
import math
import string

from gpt1_jax import metrics
from gpt1_jax.data.tasks import reading, tables
from gpt1_jax.errors import UserError, did_you_mean, shown

FILES = ('train', 'dev', 'test', 'unlabelled')
FORMATS = {'csv': ',', 'tsv': '\t', '\\t': '\t'}  # a shell's '\t' is two characters
JSON = ('jsonl', 'json', 'parquet')
ANSWERS = ('index0', 'index1', 'letter', 'text')
METRICS = {
    'labels': tuple(metrics.LABEL_METRICS),
    'score': tuple(metrics.VALUE_METRICS),
    'choices': ('accuracy',),
}
LETTERS = string.ascii_uppercase


# Converters from a plain value to a field of Spec. TypeError for a value of another type,
# ValueError, with its fault, for any other wrong value.


def _of(*types):
    def convert(value):
        if type(value) not in types:
            raise TypeError
        return value

    return convert


def _tuple(convert):
    def all_of(value):
        value = (value,) if isinstance(value, str) else _of(list, tuple)(value)
        if tuple(value) == ('',):  # from an empty flag, --config.custom.FIELD=
            return ()
        return tuple(map(convert, value))

    return all_of


def _label(value):
    name = str(_of(str, int, float, bool)(value)).strip()  # True on a command line is a name
    return reading.label_name(name) if type(value) is float else name


def _files(value):
    return tuple(
        (_of(str)(split), _of(str)(path))
        for split, path in _of(dict)(value).items()
        if path is not None
    )


_NAMES = ('a list of names', _tuple(lambda value: str(_of(str, int)(value))))
# {field: (description of its value in a config, converter)}. The rules of other fields follow from
# their defaults
RULES = {
    'files': ('a dictionary of file names', _files),
    'choices': _NAMES,
    'metrics': _NAMES,
    'segments': ('a list of lists of columns', _tuple(_tuple(_of(str)))),
    'labels': ('a list of names', _tuple(_label)),
    'positive': ('a label', _label),
    'score': ('two numbers', _tuple(_of(int, float))),
}
_BY_TYPE = {
    str: ('a string', _of(str)),
    int: ('a whole number', _of(int)),
    bool: ('True or False', _of(bool)),
    float: ('a number', _of(int, float)),
}
MOST_LABELS = 1000  # each row's target has a number for each label


@dataclasses.dataclass(frozen=True)
class Spec:
    """The checked fields, which configs/custom.py documents. '', (), 0 and None mean "not given".

    files:    (split, file name in the data directory) pairs, so that a Spec can be hashed.
    segments: columns of texts.
    """

    name: str = ''
    files: tuple[tuple[str, str], ...] = ()
    format: str = 'csv'
    encoding: str = 'utf-8'
    quoting: bool = True
    segments: tuple[tuple[str, ...], ...] = ()
    label: str = ''
    labels: tuple[str, ...] = ()
    score: tuple[float, ...] = ()
    squared: bool = False
    choices: tuple[str, ...] = ()
    max_choices: int = 0
    answer: str = ''
    metrics: tuple[str, ...] = ()
    positive: str = ''
    id: str = ''
    dev_fraction: float = 0.0
    dev_seed: int = 0

    def file(self, split: str) -> str | None:
        """The file name of a split, or None."""
        return dict(self.files).get(split) or None

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of all segments, in order."""
        return tuple(column for segment in self.segments for column in segment)

    @property
    def delimiter(self) -> str:
        """The character between the cells of a table."""
        return FORMATS.get(self.format, self.format)


def check(fields: dict | None) -> Spec:
    """Makes a Spec from a plain dict of its fields (lists for tuples).

    UserError listing every mistake in one line.
    """
    if not isinstance(fields, dict):
        raise UserError(f'config.custom is {shown(fields)}, must be a dictionary of fields')
    known = {
        field.name: RULES.get(field.name) or _BY_TYPE[type(field.default)]
        for field in dataclasses.fields(Spec)
    }
    problems = []
    values = {}
    for name, value in fields.items():
        if name not in known:
            problems.append(f'unknown field {name}' + did_you_mean(name, known))
        elif value is not None:
            wanted, convert = known[name]
            try:
                values[name] = convert(value)
            except TypeError:
                problems.append(f'{name} is {shown(value)}, must be {wanted}')
            except ValueError as error:
                problems.append(f'{name}: {error}')
    if not problems:  # the other checks need fields of the right types
        spec = Spec(**values)
        checks = (
            *_about_files(spec),
            *_about_texts(spec),
            *_about_target(spec),
            *_about_scoring(spec),
        )
        problems = [message for wrong, message in checks if wrong]
    if problems:
        raise UserError('; '.join(f'config.custom.{problem}' for problem in problems))
    return spec


# Checks: (whether a field is wrong, the message), in the order of the messages.


def _about_files(spec):
    is_json = spec.format in JSON
    yield not spec.name, 'name is missing'
    for split, name in spec.files:
        yield (
            split not in FILES,
            f'files.{split}: unknown split (there are {", ".join(FILES)})'
            + did_you_mean(split, FILES),
        )
        yield (
            name and tables.is_json(name) != is_json,
            (
                f'files.{split} is {name!r}, and format is {spec.format!r}: records (.jsonl, '
                '.json, .parquet) and tables cannot be mixed'
            ),
        )
    yield (
        is_json and spec.encoding != Spec.encoding,
        f'encoding is {spec.encoding!r}, but {spec.format} is always UTF-8',
    )
    yield not spec.file('train'), 'files.train is missing'
    fraction = 0 <= spec.dev_fraction < 1
    yield not fraction, f'dev_fraction is {spec.dev_fraction}, must be above 0 and below 1'
    yield (
        fraction and bool(spec.file('dev')) == bool(spec.dev_fraction),
        ('files.dev or dev_fraction, which takes rows from train: give one of the two'),
    )
    yield (
        not is_json and (len(spec.delimiter) != 1 or spec.delimiter in '"\r\n'),
        (
            f"format is {spec.format!r}, must be 'csv', 'tsv', 'jsonl', 'json', 'parquet' or one "
            'character'
        ),
    )


def _about_texts(spec):
    yield (
        not spec.segments,
        "segments is missing: a list of lists of columns, (('premise',), ('hypothesis',))",
    )
    yield not all(spec.segments), 'segments has an empty segment'
    yield from _duplicates(
        'segments and choices' if spec.choices else 'segments', spec.texts + spec.choices
    )
    yield (
        spec.label and spec.label in spec.texts + spec.choices,
        (f'label is {spec.label!r}, which the model would read as a text'),
    )


def _about_target(spec):
    given = [name for name in METRICS if getattr(spec, name)]
    yield (
        not given,
        (
            'labels, score and choices are all missing: give one of them, or label alone to read '
            'labels from the file'
        ),
    )
    yield len(given) > 1, f'{" and ".join(given)} are all given, must be one of them'
    yield not spec.label, 'label is missing: the column of the label, the score or the right choice'
    yield len(spec.labels) == 1, f'labels is {spec.labels}, must be two names or more'
    yield not all(spec.labels), 'labels has an empty name'
    yield from _duplicates('labels', spec.labels)
    yield spec.squared and not spec.score, 'squared is True, but score is missing'
    if spec.score:
        pair = (
            len(spec.score) == 2
            and all(map(math.isfinite, spec.score))
            and spec.score[0] < spec.score[1]
        )
        yield not pair, f'score is {spec.score}, must be (low, high)'
        yield (
            pair and not spec.squared and not all(float(end).is_integer() for end in spec.score),
            (f'score is {spec.score}, must be whole numbers unless squared is True'),
        )
        yield (
            pair and not spec.squared and spec.score[1] - spec.score[0] >= MOST_LABELS,
            (
                f'score is {spec.score}, a label for each whole number: at most {MOST_LABELS:,}, '
                'or squared must be True'
            ),
        )
    n = len(spec.choices)
    yield (
        n == 1 and spec.max_choices < 2,
        ('max_choices is missing: the most choices that a JSON list may hold, at least 2'),
    )
    yield (
        spec.max_choices and n != 1 and spec.max_choices != n,
        (f'max_choices is {spec.max_choices}, but there are {n} columns of choices'),
    )
    yield (
        n and spec.answer not in ANSWERS,
        (
            f'answer is {spec.answer!r}, must be one of '
            f'{", ".join(ANSWERS)}' + did_you_mean(spec.answer, ANSWERS)
        ),
    )
    yield spec.answer and not n, f'answer is {spec.answer!r}, but choices is missing'


def _about_scoring(spec):
    given = [name for name in METRICS if getattr(spec, name)]
    several = len(spec.labels) > 2
    for metric in spec.metrics:
        for target in given:
            yield (
                metric not in METRICS[target],
                (
                    f'metrics: {metric!r} does not fit {target} (there are '
                    f'{", ".join(METRICS[target])})' + did_you_mean(metric, METRICS[target])
                ),
            )
        yield (
            metric == 'matthews' and several,
            f"metrics: 'matthews' takes two labels, there are {len(spec.labels)}",
        )
        yield (
            metric == 'f1' and several and not spec.positive,
            (
                f"metrics: 'f1' of {len(spec.labels)} labels counts one of them, but positive is "
                'missing'
            ),
        )
    yield from _duplicates('metrics', spec.metrics)
    yield (
        spec.positive and spec.positive not in spec.labels,
        (
            f'positive is {spec.positive!r}, must be one of labels '
            f'({", ".join(spec.labels) or "none"})' + did_you_mean(spec.positive, spec.labels)
        ),
    )


def _duplicates(field, names):
    for name, count in collections.Counter(names).items():
        yield count > 1, f'{field}: duplicate {name!r}'
