"""Bytes of text that a token stands for, which makes losses of different vocabularies comparable: bits a byte."""
from gpt1_jax.data.tokenizer import Tokenizer
from gpt1_jax.data.tokens import TokenStream

SAMPLE = 64  # windows that are decoded where the manifest has no count


def per_token(entry: dict, stream: TokenStream, tokenizer: Tokenizer, n_ctx: int) -> float:
    """UTF-8 bytes a token of a split.

    entry: the split in the manifest. Its 'bytes', of the documents as they were read, by its tokens; of a directory
    prepared without them, those of the decoded text (lower case, punctuation set off) of some windows of n_ctx tokens.
    """
    if entry.get('bytes'):
        return entry['bytes'] / max(1, entry['tokens'])
    chosen = stream.evenly_spaced(SAMPLE, n_ctx)
    texts = [tokenizer.decode(stream.window(i, n_ctx)[1:]) for i in chosen]
    return sum(len(text.encode()) for text in texts) / (len(chosen) * n_ctx)
