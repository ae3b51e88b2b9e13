"""The one line by which a call is refused."""

import pytest

from gpt1_jax.errors import UserError, os_errors_in_one_line


def refusal(call, *arguments, **options) -> str:
    with pytest.raises(UserError) as caught, os_errors_in_one_line():
        call(*arguments, **options)
    message = str(caught.value)
    assert message.isprintable() and len(message) < 600
    return message


def refused_flips(path, read, step=1) -> int:
    """Flips a bit of every step-th byte of a file in turn, and counts the refusals.

    Each time the result must stay the same, or one line must name the file.
    """
    data = path.read_bytes()
    expected = read()
    refused = 0
    for place in range(0, len(data), step):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        try:
            assert read() == expected, place
        except UserError as error:
            assert str(path) in str(error) and '\n' not in str(error)
            refused += 1
    path.write_bytes(data)
    return refused
