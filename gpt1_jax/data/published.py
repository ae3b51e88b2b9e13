"""Section 4.1: turns the authors' released vocabulary into a SentencePiece model that gives the
same ids."""

import os

from sentencepiece import sentencepiece_model_pb2 as proto

from gpt1_jax import storage
from gpt1_jax.data import rows
from gpt1_jax.data.tokenizer import END, LARGEST_VOCABULARY, LINE_BREAK, RESERVED, Tokenizer
from gpt1_jax.errors import UserError, shown


def from_published(encoder_json: str | os.PathLike, merges_bpe: str | os.PathLike) -> Tokenizer:
    """Reads the released vocabulary (encoder_bpe_40000.json, vocab_40000.bpe) as a `Tokenizer`.

    Any text gets the ids of the released code (given the same spaCy and ftfy). UserError if a file
    is missing or the files do not have the released layout.
    """
    encoder_file = storage.path(encoder_json)
    merges_file = storage.path(merges_bpe)
    encoder = storage.read_json(encoder_file)
    lines = rows.decoded(storage.read(merges_file), merges_file).split('\n')
    if not lines[0].startswith('#version'):
        raise UserError(f'{merges_file}: line 1 is not "#version: ..."')
    merges = {
        f'line {number}': line.split() for number, line in enumerate(lines[1:], 2) if line.strip()
    }
    return _tokenizer(encoder, merges, encoder_file, merges_file)


def from_tokenizer_json(file: str | os.PathLike) -> Tokenizer:
    """Reads the same vocabulary from a tokenizer.json, as Hugging Face's libraries save it.

    UserError as in `from_published`.
    """
    file = storage.path(file)
    content = storage.read_json(file)
    try:
        model = content['model']
        encoder = model['vocab']
        suffix = model['end_of_word_suffix']
        # Older files write a merge as 'a b', newer files as ['a', 'b']
        merges = {
            f'merge {number}': merge.split(' ')
            if isinstance(merge, str)
            else [str(part) for part in merge]
            for number, merge in enumerate(model['merges'], 1)
        }
    except (KeyError, TypeError) as error:
        raise UserError(f'{file}: not a BPE tokenizer ({type(error).__name__}: {error})') from None
    if suffix != '</w>':
        raise UserError(
            f'{file}: the end of a word is {shown(suffix)}, in the published vocabulary </w>; of a '
            'model that gpt1_jax exported, copy the folder gpt1_jax/ of the export beside this '
            'file, or give gpt1 hugging_face --tokenizer=RUN'
        )
    return _tokenizer(encoder, merges, file, file)


def _tokenizer(encoder, merges, encoder_file, merges_file):
    """Makes the Tokenizer from {token: id} and {place in its file: merged pair}."""
    pieces, characters = _checked(encoder, merges, encoder_file, merges_file)
    model = proto.ModelProto(
        trainer_spec=dict(
            model_type=proto.TrainerSpec.BPE,
            vocab_size=len(pieces) + 1,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            treat_whitespace_as_suffix=True,
        ),
        normalizer_spec=dict(
            name='identity',
            add_dummy_prefix=True,
            remove_extra_whitespaces=False,
            escape_whitespaces=True,
        ),
    )
    kind = proto.ModelProto.SentencePiece
    for row, piece in enumerate(pieces):
        if any('\ud800' <= character <= '\udfff' for character in piece):
            raise UserError(f'{encoder_file}: token {row:,} is not valid Unicode: {shown(piece)}')
        piece = piece.removesuffix('</w>') + END if piece.endswith('</w>') else piece
        if row == 0:
            model.pieces.add(piece=piece, score=0, type=kind.UNKNOWN)
        elif row == len(pieces) - 1:
            model.pieces.add(piece=LINE_BREAK, score=0, type=kind.CONTROL)
        else:
            model.pieces.add(piece=piece, score=_score(row, characters), type=kind.NORMAL)
    # SentencePiece appends the end of a word as a character. This character needs a row, though
    # every word merges it away.
    model.pieces.add(piece=END, score=-1e6, type=kind.NORMAL)
    return Tokenizer(
        model.SerializeToString(deterministic=True),
        vocab_size=len(pieces),
        newline_id=len(pieces) - 1,
    )


def _score(row, characters):
    """The score of a token: the negated rank of its merge.

    SentencePiece applies merges in the order of descending scores. Joining the last character of a
    word with the end of the word comes first, because in the released code this character carries
    the mark from the start.
    """
    rank = row - 2 * characters
    if rank > 0:
        return -rank
    return 1 if row > characters else 0


def _checked(encoder, merges, encoder_file, merges_file):
    """(tokens in the order of their ids, number of characters among them).

    UserError if the layout is not the released layout.
    """
    ids = list(encoder.values()) if isinstance(encoder, dict) else [None]
    if not all(type(i) is int for i in ids) or sorted(ids) != list(range(len(ids))):
        raise UserError(f'{encoder_file}: must map each piece to its id, 0 to the number of pieces')
    if len(ids) > LARGEST_VOCABULARY:
        raise UserError(
            f'{encoder_file}: has {len(ids):,} pieces, at most {LARGEST_VOCABULARY:,} fit token '
            'shards'
        )
    pieces = sorted(encoder, key=encoder.get)
    characters = (len(pieces) - 2 - len(merges)) // 2
    if characters < 1 or len(pieces) != 2 + 2 * characters + len(merges):
        raise UserError(
            f'{encoder_file} has {len(pieces)} pieces and {merges_file} {len(merges)} merges: they '
            'do not belong together (released: 40478 and 40000)'
        )
    alphabet = pieces[1 : 1 + characters]
    ordered = (pieces[0], pieces[-1]) == ('<unk>', '\n</w>') and all(
        len(piece) == 1 and piece not in RESERVED and at_end == f'{piece}</w>'
        for piece, at_end in zip(alphabet, pieces[1 + characters :])
    )
    if not ordered:
        raise UserError(
            f'{encoder_file}: not in the released order (<unk>, characters, characters with </w>, '
            'merges, line break)'
        )
    known = set(pieces[1 : 1 + 2 * characters])
    for row, (place, merge) in enumerate(merges.items(), 1 + 2 * characters):
        expected = pieces[row]
        if len(merge) != 2 or ''.join(merge) != expected or not known.issuperset(merge):
            raise UserError(
                f'{merges_file}: {place} {" ".join(merge)!r} does not make piece {row} '
                f'{expected!r} of {encoder_file} from earlier ones'
            )
        known.add(expected)
    return pieces, characters
