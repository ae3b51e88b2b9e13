"""The one line by which a call is refused."""
import pytest

from gpt1_jax.errors import UserError, os_errors_in_one_line


def refusal(call, *arguments, **options) -> str:
    with pytest.raises(UserError) as caught, os_errors_in_one_line():
        call(*arguments, **options)
    message = str(caught.value)
    assert message.isprintable() and len(message) < 600
    return message
