"""The config fields that describe a user's own labelled set, and the checks of them before any file is read."""
import dataclasses
import math
import string

from gpt1_jax import metrics
from gpt1_jax.data.tasks import custom_text, json_records
from gpt1_jax.data.tasks.custom_text import Part
from gpt1_jax.errors import UserError, did_you_mean, shown

FILES = ('train', 'dev', 'test', 'unlabelled')
FORMATS = {'csv': ',', 'tsv': '\t', '\\t': '\t'}  # a shell's '\t' is two characters
JSON = ('jsonl', 'json')
ANSWERS = ('index0', 'index1', 'letter', 'text')
METRICS = {'labels': tuple(metrics.LABEL_METRICS), 'score': tuple(metrics.VALUE_METRICS), 'choices': ('accuracy',)}
LETTERS = string.ascii_uppercase


# Converters: a plain value to what a Spec holds. TypeError or ValueError for a value of another type.

def _of(*types):
    def convert(value):
        if type(value) not in types:
            raise TypeError
        return value
    return convert


def _tuple(convert):
    def all_of(value):
        value = (value,) if isinstance(value, str) else _of(list, tuple)(value)
        if tuple(value) == ('',):  # of an empty flag, --config.custom.FIELD=
            return ()
        return tuple(map(convert, value))
    return all_of


def _label(value):
    return str(_of(str, int)(value)).strip()


def _files(value):
    return tuple((_of(str)(split), _of(str)(path)) for split, path in _of(dict)(value).items() if path is not None)


def _field(default, wanted, convert):
    """A field of Spec. wanted: what a value in a config must be. convert: value -> what the Spec holds."""
    return dataclasses.field(default=default, metadata={'rule': (wanted, convert)})


# The rules of fields without one of their own, by the type of the default.
_BY_TYPE = {str: ('a string', _of(str)), int: ('a whole number', _of(int)), bool: ('True or False', _of(bool)),
            float: ('a number', _of(int, float))}
_NAMES = ('a list of names', _tuple(_of(str)))


@dataclasses.dataclass(frozen=True)
class Spec:
    """The checked fields, which configs/custom.py documents. '', (), 0 and None mean "not given".

    files: (split, file name in the data directory) pairs, so that a Spec can be hashed. segments: each text is a
    column, a template ('{premise} because'), or a custom_text.ByValue.
    """
    name: str = ''
    files: tuple[tuple[str, str], ...] = _field((), 'a dictionary of file names', _files)
    format: str = 'csv'
    columns: tuple[str, ...] = _field((), *_NAMES)
    questions: str = ''
    quoting: bool = True
    segments: tuple[tuple[Part, ...], ...] = _field((), 'a list of lists of columns',
                                                    _tuple(_tuple(custom_text.parse)))
    cut: str = ''
    orders: int = 1
    label: str = ''
    labels: tuple[str, ...] = _field((), 'a list of names', _tuple(_label))
    score: tuple[float, ...] = _field((), 'two numbers', _tuple(_of(int, float)))
    squared: bool = False
    choices: tuple[str, ...] = _field((), *_NAMES)
    max_choices: int = 0
    answer: str = ''
    metrics: tuple[str, ...] = _field((), *_NAMES)
    positive: str = _field('', 'a label', _label)
    id: str = ''
    dev_fraction: float = 0.0
    dev_seed: int = 0

    def file(self, split: str) -> str | None:
        """The file name of a split, or None."""
        return dict(self.files).get(split) or None

    @property
    def texts(self) -> tuple[Part, ...]:
        """The texts of all segments, in order."""
        return tuple(part for segment in self.segments for part in segment)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that the texts are made of, each once."""
        return tuple(dict.fromkeys(column for part in self.texts for column in custom_text.columns(part)))

    @property
    def is_json(self) -> bool:
        """Whether the files are JSON."""
        return self.format in JSON

    @property
    def delimiter(self) -> str:
        """The character between the cells of a table."""
        return FORMATS.get(self.format, self.format)


def check(fields: dict | None) -> Spec:
    """The Spec of a plain dict of its fields (lists for tuples). UserError listing every mistake in one line."""
    if not isinstance(fields, dict):
        raise UserError(f'config.custom is {shown(fields)}, must be a dictionary of fields')
    known = {field.name: field.metadata.get('rule') or _BY_TYPE[type(field.default)]
             for field in dataclasses.fields(Spec)}
    problems = []
    values = {}
    for name, value in fields.items():
        if name not in known:
            problems.append(f'unknown field {name}' + did_you_mean(name, known))
        elif value is not None:
            wanted, convert = known[name]
            try:
                values[name] = convert(value)
            except (TypeError, ValueError):
                problems.append(f'{name} is {shown(value)}, must be {wanted}')
    if not problems:  # the other checks need fields of the right types
        spec = Spec(**values)
        problems = [*_about_files(spec), *_about_texts(spec), *_about_target(spec), *_about_scoring(spec)]
    if problems:
        raise UserError('; '.join(f'config.custom.{problem}' for problem in problems))
    return spec


def _about_files(spec):
    if not spec.name:
        yield 'name is missing'
    for split, _ in spec.files:
        if split not in FILES:
            yield f'files.{split} is no split (there are {", ".join(FILES)})' + did_you_mean(split, FILES)
    if not spec.file('train'):
        yield 'files.train is missing'
    for split, name in spec.files:
        if name and json_records.is_json(name) != spec.is_json:
            yield (f'files.{split} is {name!r}, which does not end as format {spec.format!r} wants: '
                   ".jsonl and .json are of format 'jsonl' or 'json'")
    if not 0 <= spec.dev_fraction < 1:
        yield f'dev_fraction is {spec.dev_fraction}, must be above 0 and below 1'
    elif spec.file('dev') and spec.dev_fraction:
        yield 'files.dev and dev_fraction are both given, must be one of the two'
    elif not spec.file('dev') and not spec.dev_fraction:
        yield 'files.dev is missing: give it, or dev_fraction to take rows from train'
    if not spec.is_json and (len(spec.delimiter) != 1 or spec.delimiter in '"\r\n'):
        yield f"format is {spec.format!r}, must be 'csv', 'tsv', 'jsonl', 'json' or one character"
    if spec.questions and not spec.is_json:
        yield (f"questions is {spec.questions!r}, but a table has one question a row: write several as JSON records, "
               "format 'json', with a list of questions")
    yield from _twice('columns', spec.columns)


def _about_texts(spec):
    if not spec.segments:
        yield "segments is missing: a list of lists of columns, (('premise',), ('hypothesis',))"
    if not all(spec.segments):
        yield 'segments has an empty segment'
    mistakes = [mistake for mistake in map(custom_text.wrong_with, spec.texts) if mistake]
    if mistakes:  # messages about their columns would be misleading
        yield from (f'segments: {mistake}' for mistake in mistakes)
        return
    yield from _twice('segments and choices' if spec.choices else 'segments', spec.texts + spec.choices)
    if spec.label and spec.label in spec.text_columns + spec.choices:
        yield f'label is {spec.label!r}, which the model would read as a text'
    if spec.cut and spec.cut not in spec.text_columns:
        yield f'cut is {spec.cut!r}, must be a column of segments ({", ".join(spec.text_columns)})' + did_you_mean(
            spec.cut, spec.text_columns)
    if spec.orders not in (1, 2):
        yield f'orders is {spec.orders}, must be 1 or 2'
    if spec.orders == 2 and (len(spec.segments) != 2 or spec.choices):
        choices = f' and {len(spec.choices)} columns of choices' if spec.choices else ''
        yield f'orders is 2, which takes two segments and no choices; there are {len(spec.segments)} segments{choices}'
    if spec.columns and not spec.questions:
        for name, columns in (('segments', spec.text_columns), ('choices', spec.choices), ('label', (spec.label,)),
                              ('id', (spec.id,))):
            for column in filter(None, columns):
                if column not in spec.columns:
                    yield f'{name}: {column!r} is not among columns ({", ".join(spec.columns)})' + did_you_mean(
                        column, spec.columns)


def _about_target(spec):
    given = [name for name in METRICS if getattr(spec, name)]
    if not given:
        yield 'labels, score and choices are all missing: give one of them, or label alone to read labels from the file'
    elif len(given) > 1:
        yield f'{" and ".join(given)} are all given, must be one of them'
    if not spec.label:
        yield 'label is missing: the column of the label, the score or the right choice'
    if len(spec.labels) == 1:
        yield f'labels is {spec.labels}, must be two names or more'
    if not all(spec.labels):
        yield 'labels has an empty name'
    yield from _twice('labels', spec.labels)
    if spec.squared and not spec.score:
        yield 'squared is True, but score is missing'
    if spec.score:
        if len(spec.score) != 2 or not all(map(math.isfinite, spec.score)) or not spec.score[0] < spec.score[1]:
            yield f'score is {spec.score}, must be (low, high)'
        elif not spec.squared and not all(float(end).is_integer() for end in spec.score):
            yield f'score is {spec.score}, must be whole numbers unless squared is True'
    if len(spec.choices) == 1 and spec.max_choices < 2:
        yield 'max_choices is missing: the most choices that a JSON list may hold, at least 2'
    if spec.max_choices and len(spec.choices) != 1 and spec.max_choices != len(spec.choices):
        yield f'max_choices is {spec.max_choices}, but there are {len(spec.choices)} columns of choices'
    if spec.choices and spec.answer not in ANSWERS:
        yield f'answer is {spec.answer!r}, must be one of {", ".join(ANSWERS)}' + did_you_mean(spec.answer, ANSWERS)
    if spec.answer and not spec.choices:
        yield f'answer is {spec.answer!r}, but choices is missing'


def _about_scoring(spec):
    given = [name for name in METRICS if getattr(spec, name)]
    if len(given) == 1:
        fitting = METRICS[given[0]]
        for metric in spec.metrics:
            if metric not in fitting:
                yield f'metrics: {metric!r} does not fit {given[0]} (there are {", ".join(fitting)})' + did_you_mean(
                    metric, fitting)
            elif metric == 'matthews' and len(spec.labels) > 2:
                yield f"metrics: 'matthews' takes two labels, there are {len(spec.labels)}"
            elif metric == 'f1' and len(spec.labels) > 2 and not spec.positive:
                yield f"metrics: 'f1' of {len(spec.labels)} labels counts one of them, but positive is missing"
    yield from _twice('metrics', spec.metrics)
    if spec.positive and spec.positive not in spec.labels:
        labels = ', '.join(spec.labels) or 'none'
        yield (f'positive is {spec.positive!r}, must be one of labels ({labels})'
               f'{did_you_mean(spec.positive, spec.labels)}')


def _twice(field, names):
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f'{field}: duplicate {name!r}'
