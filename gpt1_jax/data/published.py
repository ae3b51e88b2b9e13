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
    merges = [''.join(line.split()) for line in lines[1:] if line.strip()]
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
        merges = [''.join(pair).replace(' ', '') for pair in model['merges']]
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
    """Makes the Tokenizer from {piece: id} and the pieces that the merges make, in order."""
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
    pieces = sorted(encoder, key=encoder.get)
    characters = (len(pieces) - 2 - len(merges)) // 2
    alphabet = pieces[1 : 1 + characters]
    released = ['<unk>', *alphabet, *(f'{one}</w>' for one in alphabet), *merges, '\n</w>']
    if len(pieces) != len(released) or len(pieces) > LARGEST_VOCABULARY:
        raise UserError(
            f'{encoder_file} has {len(pieces)} pieces and {merges_file} {len(merges)} merges: they '
            'do not belong together (released: 40478 and 40000)'
        )
    for row, (piece, expected) in enumerate(zip(pieces, released)):
        if piece != expected:
            raise UserError(
                f'{encoder_file}: piece {row} is {shown(piece)}, by {merges_file} it must be '
                f'{shown(expected)}, in the released order (<unk>, characters, characters with '
                '</w>, merges, line break)'
            )
    odd = RESERVED.union(map(chr, range(0xD800, 0xE000)))  # and halves of characters
    for row, piece in enumerate(pieces[1:-1], 1):
        if not odd.isdisjoint(piece) or row <= characters and len(piece) != 1:
            raise UserError(f'{encoder_file}: piece {row} is no text: {shown(piece)}')
    return pieces, characters
