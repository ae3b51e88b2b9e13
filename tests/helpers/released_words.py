"""The words of a text that the released code's BPE gets: the words of all lines, with '\\n '
between two lines."""

from gpt1_jax.data import text


def words(raw):
    found = []
    for line in text.lines(raw):
        found += [*['\n '] * bool(found), *line]
    return found
