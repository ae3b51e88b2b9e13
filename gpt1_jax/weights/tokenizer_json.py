"""Writes a tokenizer as the files that Hugging Face's AutoTokenizer loads.

They are tokenizer.json, vocab.json and merges.txt. Text that is already split into words gets the
ids of data/tokenizer.py, except for rare words such as 'a$.'.

In training, ftfy and spaCy split raw text. A tokenizer.json cannot run them, so a list of regular
expressions approximates them by inserting spaces where words end. These follow data/text.py and a
part of spaCy's English rules. The exceptions ("mr.", "don't") are read from the installed spaCy.
The expressions hardly change text that is already split.
"""

import functools
import json
import re
from typing import Any

from gpt1_jax.data.tokenizer import END, SPECIALS, Tokenizer

SUFFIX = '</w>'  # the end of a word in the released vocabulary
# data/text.py puts spaces around runs of each character of _RUNS. spaCy splits runs of each
# character of _EACH.
_RUNS = '-~/|'
_EACH = '!";?+,)(*[]}{_'
_UNITS = 'km|m|cm|mm|dm|nm|ha|ft|g|kg|mg|t|lb|oz|mph|kmh|pa|hpa|mb|kb|gb|tb|k'


def files(tokenizer: Tokenizer, n_ctx: int, specials: bool = False) -> dict[str, bytes]:
    """{file name: content}.

    specials: put start, delimiter and extract tokens around a text or a pair (Section 3.3).
    """
    published = not tokenizer.has_bytes
    model = _published(tokenizer) if published else _own(tokenizer)
    added: list[dict[str, Any]] = [
        {
            'id': tokenizer.unk_id,
            'content': '<unk>',
            'single_word': False,
            'lstrip': False,
            'rstrip': False,
            'normalized': False,
            'special': True,
        }
    ]
    if specials:
        added += [
            added[0] | {'id': tokenizer.vocab_size + i, 'content': name}
            for i, name in enumerate(SPECIALS)
        ]
    if published:
        decoder: dict[str, Any] = {'type': 'BPEDecoder', 'suffix': SUFFIX}
    else:
        decoder = {
            'type': 'Sequence',
            'decoders': [
                {'type': 'ByteFallback'},
                _replace(END, ' ', 'String'),
                {'type': 'Fuse'},
                {'type': 'Strip', 'content': ' ', 'start': 0, 'stop': 1},
            ],
        }
    whole = {
        'version': '1.0',
        'truncation': None,
        'padding': None,
        'added_tokens': added,
        'normalizer': {'type': 'Sequence', 'normalizers': _normalizers(marks=not published)},
        'pre_tokenizer': {
            'type': 'Split',
            'pattern': {'String': ' '},
            'behavior': 'Removed',
            'invert': False,
        },
        'post_processor': _template(tokenizer) if specials else None,
        'decoder': decoder,
        'model': model,
    }
    settings = {
        'tokenizer_class': 'PreTrainedTokenizerFast',
        'model_max_length': n_ctx,
        'unk_token': '<unk>',
        'pad_token': '<unk>',
        'padding_side': 'right',
        'clean_up_tokenization_spaces': False,
        'model_input_names': ['input_ids', 'attention_mask'],
    }
    if specials:
        settings |= {'bos_token': SPECIALS[0], 'sep_token': SPECIALS[1], 'cls_token': SPECIALS[2]}
    found = {
        name: json.dumps(content, ensure_ascii=False, indent=1).encode() + b'\n'
        for name, content in (('tokenizer.json', whole), ('tokenizer_config.json', settings))
    }
    if published:
        found['vocab.json'] = json.dumps(model['vocab'], ensure_ascii=False).encode()
        found['merges.txt'] = '\n'.join(
            ['#version: 0.2', *map(' '.join, model['merges']), '']
        ).encode()
    return found


def _published(tokenizer):
    """The BPE model of the published vocabulary.

    In it the last character of a word carries the suffix </w>. SentencePiece's model stores the
    merged tokens in their order, but not the pair from which each was merged. Replaying the earlier
    merges on the characters of a token leaves its pair.
    """
    pieces = [
        piece.removesuffix(END) + SUFFIX if piece.endswith(END) else piece
        for piece in tokenizer.pieces()
    ]
    characters = sum(len(piece) == 1 for piece in pieces[1:-1])
    ranks: dict[tuple, int] = {}  # of the merges, in their order
    for piece in pieces[1 + 2 * characters : -1]:
        stem = piece.removesuffix(SUFFIX)
        pair = _merged([*stem[:-1], stem[-1] + piece[len(stem) :]], ranks)
        ranks[tuple(pair)] = len(ranks)
    return _bpe(pieces, list(ranks), end_of_word_suffix=SUFFIX)


def _merged(symbols, ranks):
    """Applies the merges of these ranks until two symbols remain, and returns them."""
    while len(symbols) > 2:
        first, second = min(zip(symbols, symbols[1:]), key=lambda pair: ranks.get(pair, len(ranks)))
        merged = []
        i = 0
        while i < len(symbols):
            pair = symbols[i : i + 2] == [first, second]
            merged.append(first + second if pair else symbols[i])
            i += 1 + pair
        symbols = merged
    return symbols


def _own(tokenizer):
    """The BPE model of a vocabulary trained here.

    SentencePiece merges any two neighbours whose concatenation is a token, highest score first. So
    every split of a token into two tokens is a merge.
    """
    pieces = tokenizer.pieces()
    scores = tokenizer.scores()
    known = set(pieces)
    merges: list[tuple[str, str]] = []
    for row in sorted(range(len(pieces)), key=lambda row: -scores[row]):
        piece = pieces[row]
        if row not in (tokenizer.unk_id, tokenizer.newline_id) and not re.fullmatch(
            '<0x[0-9A-F]{2}>', piece
        ):
            merges += [
                (piece[:i], piece[i:])
                for i in range(1, len(piece))
                if piece[:i] in known and piece[i:] in known
            ]
    # The line break is a separate word and is not merged. Neither is any other word with a row, to
    # which merges would also lead.
    return _bpe(pieces, merges, byte_fallback=True, ignore_merges=True)


def _bpe(pieces, merges, **settings):
    return {
        'type': 'BPE',
        'dropout': None,
        'unk_token': '<unk>',
        'continuing_subword_prefix': None,
        'end_of_word_suffix': None,
        'fuse_unk': False,
        'byte_fallback': False,
        'ignore_merges': False,
        'vocab': {piece: row for row, piece in enumerate(pieces)},
        'merges': merges,
    } | settings


def _template(tokenizer):
    """[start] a [extract], [start] a [delimiter] b [extract]."""
    start, delimiter, extract = ({'SpecialToken': {'id': name, 'type_id': 0}} for name in SPECIALS)
    a, b = ({'Sequence': {'id': name, 'type_id': 0}} for name in 'AB')
    return {
        'type': 'TemplateProcessing',
        'single': [start, a, extract],
        'pair': [start, a, delimiter, b, extract],
        'special_tokens': {
            name: {'id': name, 'ids': [tokenizer.vocab_size + i], 'tokens': [name]}
            for i, name in enumerate(SPECIALS)
        },
    }


def _normalizers(marks):
    """The steps of data/text.py as normalizers.

    marks: append the end-of-word mark to each word.
    """
    signs = {
        '[“”„‟]': '"',
        '[‘’‚‛´]': "'",
        '[—–―]': '-',
        '…': '...',
        '\r\n?': '\n',
        'ﬀ': 'ff',
        'ﬁ': 'fi',
        'ﬂ': 'fl',
        'ﬃ': 'ffi',
        'ﬄ': 'ffl',
    }
    # Prepend a space: `tokenizers` miscounts offsets if text is inserted before the first
    # character.
    steps = [
        {'type': 'Prepend', 'prepend': ' '},
        {'type': 'NFC'},
        *(_replace(*pair) for pair in signs.items()),
        _spaces(*(_around(re.escape(c)) for c in _RUNS), _around(r'\.\.', r'\.')),
        _spaces(*(f'(?<={sign})|(?={sign})' for sign in (*map(re.escape, _EACH), r'\p{So}'))),
        _replace(r'\s*\n\s*', ' \n '),
        _replace(r'[^\S\n]+', ' '),
        _replace(r'\A\s+', ' '),
        _replace(r'\s+\z', ''),
        *_english(),
        {'type': 'Lowercase'},
    ]
    return steps + [_replace('(?<=[^ ])(?![^ ])', END)] * marks


@functools.cache
def _english():
    """The main rules of spaCy's English tokenizer.

    They are prefixes (opened), suffixes (closed), infixes (inner) and exceptions. A space precedes
    every word of the text.
    """
    import spacy
    from spacy.symbols import ORTH

    tokenizer: Any = spacy.blank('en').tokenizer
    rules = {
        text: [part[ORTH] for part in parts]
        for text, parts in tokenizer.rules.items()
        if re.fullmatch(r"[A-Za-z0-9.']+", text)
    }
    # Words that keep an apostrophe or a full stop at their end, and an apostrophe at their start.
    closing = [
        text[:-1]
        for text, parts in rules.items()
        if text[-1] == "'" and len(parts) == 1 and len(text) > 1
    ]
    abbreviations = [
        text[:-1] for text, parts in rules.items() if text[-1] == '.' and len(parts) == 1
    ]
    # Exceptions of several parts, such as do + n't: {end: the beginnings that it may follow}.
    inside: dict[str, set[str]] = {}
    for parts in rules.values():
        for i in range(1, len(parts)):
            inside.setdefault(''.join(parts[i:]), set()).add(''.join(parts[:i]))
    alone = [text for text, parts in rules.items() if len(parts) == 1] + list(inside)
    opening = [text[1:] for text in alone if text[0] == "'" and len(text) > 1]
    end = '(?![^ ])'
    signs = "[:&#<>'`]"
    closed = _spaces(
        f"(?<=[^ ])(?={signs}{end})(?<! ')(?<! (?i:{_any(closing)}))", f"(?<=[^ '])(?=''{end})"
    )
    opened = _spaces(
        '(?<= [%=:&#<>$£€¥`])(?=[^ ])',
        "(?<= '')(?=[^ ])",
        r'(?<= US\$)(?=[^ '
        r'])',
        r'(?<= [CA]\$)(?=[^ ])',
        f"(?<= ')(?=[^ '])(?!(?i:{_any(opening)}){end})",
    )
    inner = _spaces(
        rf"(?<=[^ ])(?='[sS]{end})",
        rf'(?<=[0-9])(?=(?i:{_UNITS}|[%$£€¥]){end})',
        r'(?<=[A-Za-z0-9])(?=[:<>=][A-Za-z])',
        r'(?<=[A-Za-z0-9][:<>=])(?=[A-Za-z])',
        r'(?<=[a-z])(?=\.[A-Z])',
        r'(?<=[a-z]\.)(?=[A-Z])',
    )
    return [
        closed,
        inner,
        _spaces(
            rf'(?<=[^ .])(?=\.{end})(?<![ .][A-Za-z])(?<! '
            rf'(?i:{_any(abbreviations)}))'
        ),
        # After the full stop is split off: the quote of "'word'.", the % of "10%."
        closed,
        inner,
        closed,
        opened,
        opened,
        opened,  # one character each time: ">>>"
        *(
            _spaces(rf'(?<= {left})(?={re.escape(right)}{end})')
            for right, lefts in inside.items()
            for left in [f'(?:{_any(lefts)})']
        ),
    ]


def _any(texts):
    return '|'.join(sorted(map(re.escape, texts)))


def _around(sign, one=None):
    """A regular expression for the positions at which a run of a character begins or ends."""
    one = one or sign
    return f'(?<={sign})(?!{one})|(?<!{one})(?={sign})'


def _spaces(*places):
    """Inserts a space at each position.

    Positions are regular expressions that match the empty string there.
    """
    return _replace('|'.join(places), ' ')


def _replace(pattern, content, kind='Regex'):
    return {'type': 'Replace', 'pattern': {kind: pattern}, 'content': content}
