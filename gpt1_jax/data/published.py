"""Section 4.1's vocabulary as the authors released it: two files, turned into the SentencePiece model that gives their
ids."""
import json
import os
import pathlib

from sentencepiece import sentencepiece_model_pb2 as proto

from gpt1_jax.data.tokenizer import END, LINE_BREAK, RESERVED, Tokenizer
from gpt1_jax.errors import UserError, shown


def from_published(encoder_json: str | os.PathLike, merges_bpe: str | os.PathLike) -> Tokenizer:
    """The released vocabulary (encoder_bpe_40000.json, vocab_40000.bpe) as a `Tokenizer` with the released ids.

    Any text gets the ids of the released code (given the same spaCy and ftfy). UserError when a file is missing or
    the two don't have the released layout.
    """
    return _model(*_read_published(pathlib.Path(encoder_json), pathlib.Path(merges_bpe)))


def from_tokenizer_json(file: str | os.PathLike) -> Tokenizer:
    """The same vocabulary out of a tokenizer.json, as Hugging Face's libraries save it. UserErrors as above."""
    file = pathlib.Path(file)
    try:
        model = json.loads(file.read_text('utf-8'))['model']
        encoder, merges, suffix = model['vocab'], model['merges'], model['end_of_word_suffix']
        merges = [merge.split(' ') if isinstance(merge, str) else [str(part) for part in merge] for merge in merges]
    except OSError as error:
        raise UserError(f'{error.filename}: cannot read the vocabulary ({error.strerror})') from None
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise UserError(f'{file}: not a BPE tokenizer ({type(error).__name__}: {error})') from None
    if suffix != '</w>':
        raise UserError(f'{file}: the end of a word is {shown(suffix)}, in the published vocabulary </w>')
    return _model(*_checked(encoder, merges, file, file))


def _model(pieces, characters):
    """The Tokenizer of pieces in id order, of which so many are characters."""
    model = proto.ModelProto()
    kind = proto.ModelProto.SentencePiece
    for row, piece in enumerate(pieces):
        piece = piece.removesuffix('</w>') + END if piece.endswith('</w>') else piece
        if row == 0:
            model.pieces.add(piece=piece, score=0, type=kind.UNKNOWN)
        elif row == len(pieces) - 1:
            model.pieces.add(piece=LINE_BREAK, score=0, type=kind.CONTROL)
        else:
            # A merge scores by its rank. Joining the last character with its end mark comes before every merge:
            # in the released code a word's last character carries the mark from the start.
            rank = row - 2 * characters
            model.pieces.add(piece=piece, score=-rank if rank > 0 else int(row > characters), type=kind.NORMAL)
    # SentencePiece appends the end mark as a character of its own; it needs a row though no word leaves it alone.
    model.pieces.add(piece=END, score=-1e6, type=kind.NORMAL)
    model.trainer_spec.model_type = proto.TrainerSpec.BPE
    model.trainer_spec.vocab_size = len(model.pieces)
    model.trainer_spec.treat_whitespace_as_suffix = True
    model.trainer_spec.unk_id = 0
    model.trainer_spec.bos_id = model.trainer_spec.eos_id = model.trainer_spec.pad_id = -1
    model.normalizer_spec.name = 'identity'
    model.normalizer_spec.add_dummy_prefix = True
    model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.escape_whitespaces = True
    return Tokenizer(model.SerializeToString(deterministic=True), vocab_size=len(pieces), newline_id=len(pieces) - 1)


def _read_published(encoder_file, merges_file):
    """Reads and checks the two released files: (pieces in id order, number of characters)."""
    try:
        encoder = json.loads(encoder_file.read_text('utf-8'))
        lines = merges_file.read_text('utf-8').split('\n')
    except OSError as error:
        raise UserError(f'{error.filename}: cannot read the published vocabulary ({error.strerror})') from None
    except UnicodeDecodeError:
        raise UserError(f'{encoder_file}, {merges_file}: the published vocabulary is not UTF-8 text') from None
    except json.JSONDecodeError as error:
        raise UserError(f'{encoder_file}: not JSON, line {error.lineno} ({error.msg})') from None
    except (ValueError, RecursionError) as error:  # of a number or a nesting beyond what Python reads
        raise UserError(f'{encoder_file}: not JSON ({error})') from None
    if not lines[0].startswith('#version'):
        raise UserError(f'{merges_file}: line 1 is not "#version: ..."')
    return _checked(encoder, [line.split() for line in lines[1:] if line], encoder_file, merges_file)


def _checked(encoder, merges, encoder_file, merges_file):
    """(pieces in id order, number of characters) of {piece: id} and pairs. UserError unless they are as released."""
    ids = list(encoder.values()) if isinstance(encoder, dict) else [None]
    if not all(type(i) is int for i in ids) or sorted(ids) != list(range(len(ids))):
        raise UserError(f'{encoder_file}: must map each piece to its id, 0 to the number of pieces')
    pieces = sorted(encoder, key=encoder.get)
    characters = (len(pieces) - 2 - len(merges)) // 2
    if characters < 1 or len(pieces) != 2 + 2 * characters + len(merges):
        raise UserError(f'{encoder_file} has {len(pieces)} pieces and {merges_file} {len(merges)} merges: they do not '
                        'belong together (released: 40478 and 40000)')
    known = set(pieces[1:1 + 2 * characters])
    if pieces[0] != '<unk>' or pieces[-1] != '\n</w>' or any(
            len(piece) != 1 or pieces[row + characters] != piece + '</w>' or piece in RESERVED
            or '\ud800' <= piece <= '\udfff'  # half a character, which JSON can hold
            for row, piece in enumerate(pieces[1:1 + characters], 1)):
        raise UserError(f'{encoder_file}: not in the released order (<unk>, characters, characters with </w>, merges, '
                        'line break)')
    for number, merge in enumerate(merges):
        expected = pieces[1 + 2 * characters + number]
        if len(merge) != 2 or ''.join(merge) != expected or not known.issuperset(merge):
            raise UserError(f'{merges_file}: line {number + 2} {" ".join(merge)!r} does not make piece '
                            f'{1 + 2 * characters + number} {expected!r} of {encoder_file} from earlier ones')
        known.add(expected)
    if '</w>' in known:
        raise UserError(f"{encoder_file}: piece '</w>' marks the end of nothing")
    return pieces, characters
