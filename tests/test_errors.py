"""One line, whatever a file's name or contents are."""

import pytest

from gpt1_jax.errors import Interrupted, UserError, did_you_mean, one_line, os_errors_in_one_line


@pytest.mark.parametrize(
    'text, expected',
    [
        ('plain, café, 日本', 'plain, café, 日本'),
        ('a\nb\r\n', r'a\nb\r\n'),
        ('caf\udce9', r'caf\udce9'),
    ],
)
def test_what_is_not_printable_is_written_as_python_writes_it(text, expected):
    assert str(UserError(text)) == str(Interrupted(text)) == one_line(text) == expected


def test_a_long_message_keeps_its_begin_and_its_end():
    message = str(UserError('books/a.txt: ' + '\n' * 100_000 + ': the end'))
    assert message.startswith('books/a.txt: ') and message.endswith(': the end')
    assert 1500 < len(message) <= 2000


@pytest.mark.parametrize(
    'name, message',
    [('colo', ", did you mean 'cola'?"), ('mnl', ", did you mean 'mnli'?"), ('xyz', ''), (7, '')],
)
def test_the_known_name_most_similar_to_a_wrong_one_is_suggested(name, message):
    assert did_you_mean(name, ['cola', 'mnli', 'rte']) == message


def test_what_the_system_has_against_a_path_is_one_line(tmp_path):
    long = tmp_path / ('x' * 300)
    with pytest.raises(UserError, match='^.*xxx: File name too long$'), os_errors_in_one_line():
        long.mkdir()
