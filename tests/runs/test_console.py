"""What a run prints, on a terminal and elsewhere."""
import os
import pty

from gpt1_jax.runs import console

METRICS = {'loss': 2.5, 'learning_rate': 1e-3, 'tokens_per_s': 1234.5, 'seconds_left': 100_000}


def test_a_step_is_shown_on_a_terminal_and_written_over(monkeypatch):
    ours, theirs = pty.openpty()
    with open(theirs, 'w') as terminal:
        monkeypatch.setattr('sys.stdout', terminal)
        console.print_step(1, 2000)
        console.print_step(2, 2000)
        console.print_line(2, 2000, METRICS)
        shown = ''
        while '\n' not in shown:  # a terminal hands on what it has
            shown += os.read(ours, 1000).decode()
    os.close(ours)
    assert shown == ('step 1/2,000\033[K\rstep 2/2,000\033[K\r'
                     'step 2/2,000  loss 2.5000  rate 1.00e-03  1,234 tokens/s  1 d 3:46:40 left, 0% done\r\n')
