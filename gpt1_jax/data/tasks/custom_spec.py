"""The fields that describe a user's own labelled set, and every mistake that can be seen in them before reading."""
import dataclasses
import difflib
import math
import string

from gpt1_jax.errors import UserError, shown

FILES = ('train', 'dev', 'test', 'unlabelled')
FORMATS = {'csv': ',', 'tsv': '\t', '\\t': '\t'}  # a shell's '\t' is two characters
ANSWERS = ('index0', 'index1', 'letter', 'text')
METRICS = {'labels': ('accuracy', 'f1', 'matthews'), 'score': ('pearson', 'spearman'), 'choices': ('accuracy',)}
LETTERS = string.ascii_uppercase
MOST = 1000  # choices, or whole numbers of a score
LARGEST = 1e15  # of a number: past it floats do not tell whole numbers apart


@dataclasses.dataclass(frozen=True)
class Spec:
    """What `check` returns; configs/custom.py has the same fields with examples. '', (), 0 and None mean not given.

    name:         of the task, in results and predictions.
    files:        {'train', 'dev', 'test': labelled; 'unlabelled'}: names in the data directory; train must be given.
                  Here as pairs, so that a Spec can be hashed.
    format:       'csv', 'tsv', any one character as delimiter, or 'jsonl' (files .jsonl: an object a line, its fields
                  are the columns).
    columns:      the columns' names where the files have no header. Such an unlabelled file lacks the label's column.
    quoting:      may a cell stand in double quotes and then hold delimiters and line breaks? False: quotes are text.
    segments:     columns by segment, (('title', 'body'), ('question',)): those of one segment are laid end to end, the
                  delimiter token stands between segments.
    cut:          the column that alone is cut where a row is too long; else each segment to its share.
    orders:       2 = both orders of two segments, neither being first (Section 3.3, similarity).
    label:        the column of the label, the score or the right choice.
    labels:       classification: the names, in index order.
    score:        regression: (low, high). Whole numbers with soft labels over low, low + 1, ..., high;
    squared:      or any two numbers with the squared loss.
    choices:      multiple choice: a column each, empty cells at the end being no choice; or one that holds a JSON list.
    max_choices:  the most that a JSON list may hold.
    answer:       how `label` gives the right choice: 'index0' (0, 1, ...), 'index1' (1, 2, ...), 'letter' or 'text'.
    metrics:      default accuracy, for a score pearson and spearman; the first selects the best parameters.
    positive:     the label that F1 counts; of two labels the second by default.
    id:           the column of ids; default the row number.
    dev_fraction: share of the training rows that become dev where there is no dev file, drawn with
    dev_seed:     this seed.
    """
    name: str = ''
    files: tuple[tuple[str, str], ...] = ()
    format: str = 'csv'
    columns: tuple[str, ...] = ()
    quoting: bool = True
    segments: tuple[tuple[str, ...], ...] = ()
    cut: str = ''
    orders: int = 1
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

    def file(self, split):
        """The name of a split's file, or None."""
        return dict(self.files).get(split) or None

    @property
    def texts(self):
        """The columns of all segments, in order."""
        return tuple(column for segment in self.segments for column in segment)

    @property
    def delimiter(self):
        """Between the cells of a table."""
        return FORMATS.get(self.format, self.format)


def check(fields: dict) -> Spec:
    """A plain dict of Spec's fields (lists for tuples) -> Spec. UserError listing every mistake in one line."""
    if not isinstance(fields, dict):
        raise UserError(f'config.custom is {shown(fields)}, must be a dictionary of fields')
    known, problems = [field.name for field in dataclasses.fields(Spec)], []
    values = {}
    for name, value in fields.items():
        if name not in known:
            problems.append(f'{name} is no field' + near(name, known))
        elif value is not None:
            wanted, convert = READ[name]
            try:
                values[name] = convert(value)
            except (TypeError, ValueError):
                problems.append(f'{name} is {shown(value)}, must be {wanted}')
    # Fields of the wrong kind are told of first: what else is said of them would be noise.
    spec = None if problems else Spec(**values)
    problems = problems or [*_about_files(spec), *_about_texts(spec), *_about_target(spec), *_about_scoring(spec)]
    if problems:
        raise UserError('; '.join(f'config.custom.{problem}' for problem in problems))
    return spec


def near(name, names) -> str:
    """', did you mean ...?' where a name is like one of those there are."""
    found = difflib.get_close_matches(str(name), [str(n) for n in names], 1)
    return f', did you mean {found[0]!r}?' if found else ''


def _about_files(spec):
    if not spec.name:
        yield 'name is missing'
    for split, _ in spec.files:
        if split not in FILES:
            yield f'files.{split} is no split (there are {", ".join(FILES)})' + near(split, FILES)
    if not spec.file('train'):
        yield 'files.train is missing'
    for split, name in spec.files:
        if name and name.endswith('.jsonl') != (spec.format == 'jsonl'):
            yield f'files.{split} is {name!r}, which does not end as format {spec.format!r} wants: .jsonl is JSON lines'
    if not 0 <= spec.dev_fraction < 1:
        yield f'dev_fraction is {spec.dev_fraction}, must be above 0 and below 1'
    elif spec.file('dev') and spec.dev_fraction:
        yield 'files.dev and dev_fraction are both given, must be one of the two'
    elif not spec.file('dev') and not spec.dev_fraction:
        yield 'files.dev is missing: give it, or dev_fraction to take rows from train'
    if spec.format != 'jsonl' and (len(spec.delimiter) != 1 or spec.delimiter in '"\r\n'):
        yield f"format is {spec.format!r}, must be 'csv', 'tsv', 'jsonl' or one character"
    if spec.columns and spec.format == 'jsonl':
        yield "columns is given, but the fields of 'jsonl' have names"
    yield from _twice('columns', spec.columns)


def _about_texts(spec):
    if not spec.segments:
        yield "segments is missing: a list of lists of columns, (('premise',), ('hypothesis',))"
    if not all(spec.segments):
        yield 'segments has an empty segment'
    yield from _twice('segments and choices' if spec.choices else 'segments', spec.texts + spec.choices)
    if spec.label and spec.label in spec.texts + spec.choices:
        yield f'label is {spec.label!r}, which the model would read as a text'
    if spec.cut and spec.cut not in spec.texts:
        yield f'cut is {spec.cut!r}, must be a column of segments ({", ".join(spec.texts)})' + near(
            spec.cut, spec.texts)
    if spec.orders not in (1, 2):
        yield f'orders is {spec.orders}, must be 1 or 2'
    if spec.orders == 2 and (len(spec.segments) != 2 or spec.choices):
        yield f'orders is 2, which takes two segments and no choices; there are {len(spec.segments)} segments' + (
            f' and {len(spec.choices)} columns of choices' if spec.choices else '')
    if spec.columns:
        for name, columns in (('segments', spec.texts), ('choices', spec.choices), ('label', (spec.label,)),
                              ('id', (spec.id,))):
            for column in filter(None, columns):
                if column not in spec.columns:
                    yield f'{name}: {column!r} is not among columns ({", ".join(spec.columns)})' + near(
                        column, spec.columns)


def _about_target(spec):
    given = [name for name in METRICS if getattr(spec, name)]
    if len(given) != 1:
        yield f'{" and ".join(given) or "labels, score and choices"} ' + (
            'are all given, must be one of them' if given else 'are all missing: give one of them')
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
        elif not spec.squared and spec.score[1] - spec.score[0] > MOST:
            yield f'score is {spec.score}, more than {MOST:,} whole numbers: the model has an output for each'
    if len(spec.choices) == 1 and spec.max_choices < 2:
        yield 'max_choices is missing: the most choices that a JSON list may hold, at least 2'
    if spec.max_choices > MOST:
        yield f'max_choices is {spec.max_choices}, must be at most {MOST:,}'
    if spec.max_choices and len(spec.choices) != 1 and spec.max_choices != len(spec.choices):
        yield f'max_choices is {spec.max_choices}, but there are {len(spec.choices)} columns of choices'
    if spec.answer == 'letter' and max(spec.max_choices, len(spec.choices)) > len(LETTERS):
        yield f"answer is 'letter', of which there are {len(LETTERS)}, fewer than choices"
    if spec.choices and spec.answer not in ANSWERS:
        yield f'answer is {spec.answer!r}, must be one of {", ".join(ANSWERS)}' + near(spec.answer, ANSWERS)
    if spec.answer and not spec.choices:
        yield f'answer is {spec.answer!r}, but choices is missing'


def _about_scoring(spec):
    given = [name for name in METRICS if getattr(spec, name)]
    if len(given) == 1:
        fitting = METRICS[given[0]]
        for metric in spec.metrics:
            if metric not in fitting:
                yield f'metrics: {metric!r} does not fit {given[0]} (there are {", ".join(fitting)})' + near(
                    metric, fitting)
            elif metric == 'matthews' and len(spec.labels) > 2:
                yield f"metrics: 'matthews' takes two labels, there are {len(spec.labels)}"
            elif metric == 'f1' and len(spec.labels) > 2 and not spec.positive:
                yield f"metrics: 'f1' of {len(spec.labels)} labels counts one of them, but positive is missing"
    yield from _twice('metrics', spec.metrics)
    if spec.positive and spec.positive not in spec.labels:
        yield f'positive is {spec.positive!r}, must be one of labels ({", ".join(spec.labels) or "none"})' + near(
            spec.positive, spec.labels)


def _twice(field, names):
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f'{field}: {name!r} stands twice'


def _of(*kinds):
    def convert(value):
        if type(value) not in kinds:
            raise TypeError
        return value
    return convert


def _tuple(convert):
    def all_of(value):
        return tuple(map(convert, _of(list, tuple)(value)))
    return all_of


def _number(*kinds):
    def convert(value):
        if not -LARGEST < _of(*kinds)(value) < LARGEST:
            raise ValueError
        return value
    return convert


def _label(value):
    return str(_of(str, int)(value)).strip()


def _path(value):
    if '\0' in _of(str)(value):
        raise ValueError
    return value


def _files(value):
    return tuple((_of(str)(split), _path(path)) for split, path in _of(dict)(value).items() if path is not None)


_TEXT, _NAMES = ('a string', _of(str)), ('a list of names', _tuple(_of(str)))
_WHOLE, _NUMBER, _FLAG = ('a whole number', _number(int)), _number(int, float), ('True or False', _of(bool))
READ = {  # field: (what it must be, how a plain value becomes it)
    'name': _TEXT, 'files': ('a dictionary of file names', _files), 'format': _TEXT, 'columns': _NAMES,
    'quoting': _FLAG, 'segments': ('a list of lists of columns', _tuple(_tuple(_of(str)))), 'cut': _TEXT,
    'orders': _WHOLE, 'label': _TEXT, 'labels': ('a list of names', _tuple(_label)),
    'score': ('two numbers', _tuple(_NUMBER)), 'squared': _FLAG, 'choices': _NAMES, 'max_choices': _WHOLE,
    'answer': _TEXT, 'metrics': _NAMES, 'positive': ('a label', _label), 'id': _TEXT,
    'dev_fraction': ('a number', _NUMBER), 'dev_seed': _WHOLE}
