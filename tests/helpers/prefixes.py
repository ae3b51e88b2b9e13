"""Sequences with a common prefix, as (ids, n): the last n ids are scored."""


def with_prefix(rng, common, *rests):
    """Sequences that start with the same `common` random tokens. rests: (tokens after these, tokens
    scored)."""
    prefix = rng.integers(0, 30, common).tolist()
    return [(prefix + rng.integers(0, 30, rest).tolist(), n) for rest, n in rests]
