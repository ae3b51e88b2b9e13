"""Trains ideas and a baseline on the same seeds, and says which are better.

gpt1 ablate --out=runs/ablate --idea='squared ReLU: model.ops.gelu=FILE:NAME'
gpt1 ablate --out=runs/ablate --confirm
gpt1 ablate --out=runs/ablate --adopt='squared ReLU'

An idea is a difference from the baseline's pretraining config: a number, or your own code as
FILE:NAME. Trials with the same seed share batches, dropout masks and, if shapes agree, initial
weights. So most of the noise between seeds cancels in their difference.

The first command screens ideas with short trials. The second trains those that look better for
twice as long on fresh seeds, and says which to believe. Of the believed ideas at most one in twenty
is false on average, whenever the search stops. The third makes a believed idea part of the
baseline.

The file ideas.jsonl in OUT is the ledger of the search, and report.md is written from it. Rerun an
interrupted command to resume it. A trial with the same settings, text, files and code is not
repeated. `gpt1 help ablate` has the whole page.
"""

import functools
import pathlib
import statistics
import time

from absl import flags
from ml_collections import ConfigDict

from gpt1_jax import cli, errors, pretraining, rules, user_code
from gpt1_jax.ablation import certificate, ideas, ledger, report, text, trials
from gpt1_jax.ablation.ideas import BASELINE, Idea
from gpt1_jax.cli import config_file
from gpt1_jax.configs import pretrain as pretrain_config
from gpt1_jax.configs.ablate import RULES
from gpt1_jax.data import counts, prepared
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.runs import lock, results
from gpt1_jax.runs.console import duration
from gpt1_jax.weights import from_hub

MORE = 0.01  # of the validation text: an idea's text may have so much more than the baseline's
OUT = (lambda x: '://' not in x, 'a local directory')


def run(
    config: ConfigDict,
    out: str | pathlib.Path,
    confirm: bool = False,
    adopt: str | None = None,
    minutes: float | None = None,
    dry_run: bool = False,
    certify: str | None = None,
) -> list[dict]:
    """Does the missing trials of a config, writes the report and returns the ledger's new state.

    config:  as configs/ablate.py returns it.
    confirm: confirm config.ideas, or if there are none the screened ideas that look better.
    adopt:   the name of a confirmed idea that becomes part of the baseline, before anything else.
    minutes: the time of a trial, in place of config.pretrain.train.steps. Measured once.
    dry_run: print the plan, train nothing.
    certify: the name of a confirmed idea whose certificate is written, after anything else.
    UserError for a mistake in the config or an idea, and, after the report, if trials failed.
    """
    rules.validate(config, RULES)
    rules.require({'--out': (str(out), OUT)})
    out = pathlib.Path(out).expanduser()
    with lock.hold(out):
        results.check(out / trials.FILE)
        user_code.trust(config.pretrain)
        if config.ideas or confirm or adopt or not certify:
            _run(config, out, confirm, adopt, minutes, dry_run)
        if certify:
            _certify(config, out, certify, minutes)
        return ledger.read(out)


def _certify(config, out, name, minutes):
    """Writes the certificate of an idea's newest confirmation."""
    if minutes is not None:
        config = _with_minutes(config, out, minutes)
    found = trials.read(out)
    rows = ledger.read(out, found.values())
    places = [
        place
        for place, row in enumerate(rows)
        if (row['stage'], row.get('idea')) == ('confirm', name) and 'runs' in row
    ]
    if not places:
        known = {row['idea'] for row in rows if row['stage'] == 'confirm'}
        raise UserError(
            f'--certify={name}: is not confirmed; confirmed: {", ".join(known) or "none"}'
        )
    place = places[-1]
    row = rows[place]
    base = config_file.with_fields(config.pretrain, ledger.adopted(rows[:place], out))
    changes = ledger.checked(row, out)
    several = ideas.build(base, {BASELINE: {}, name: changes}, out, ledger.LONGER)
    path = certificate.write(out, row, several, rows, found)
    print(f'certificate: {path}; on another machine: gpt1 verify {path.name}', flush=True)


def _run(config, out, confirm, adopt, minutes, dry_run):
    given = dict(_parsed(config.ideas))
    code = {name: ideas.hashes(changes) for name, changes in given.items()}

    # The user's own words may name code. The ledger's may not, without --trust_code.
    def trust(name):
        copies = ideas.kept(given[name], out, code[name])
        user_code.trust(config_file.with_fields(config.pretrain, copies))

    ideas.for_each(given, trust)
    if minutes is not None:
        config = _with_minutes(config, out, minutes)
    rows = ledger.read(out, trials.read(out).values())

    def build(base, several=None, length=1):
        return ideas.build(base, {BASELINE: {}, **(several or {})}, out, length, code)

    base = config_file.with_fields(config.pretrain, ledger.adopted(rows, out))
    if adopt:
        row = ledger.confirmed(adopt, rows, build(base)[BASELINE].key(0))
        build(base, {adopt: ledger.checked(row, out)})  # refused before anything is written
        base = _adopt(base, out, row)
        rows = ledger.read(out)
        if not given and not confirm:
            return
    several = build(base, {} if confirm else given)
    identity = several[BASELINE].key(0)
    plan = None
    if confirm:
        waiting = {} if given else ledger.to_confirm(rows, identity)
        given |= {name: row['changes'] for name, row in waiting.items()}
        code |= {name: row['code'] for name, row in waiting.items()}
        if not given:
            screens = ledger.latest(rows, 'screen')
            others = sum(row['baseline'] != identity for row in screens)
            hint = f'. Of the screens {others} had {ledger.OTHER}' if others else ''
            print(f'nothing to confirm: no screened idea looks better{hint}', flush=True)
            return
        several = build(base, given, ledger.LONGER)
        without = {name: idea for name, idea in several.items() if name != BASELINE}
        plan = ledger.plan(rows, without, config.confirm_seeds, identity)
    _check_text(several)
    search = Search(config, out, several, plan, identity)
    if dry_run:
        search.print_plan(minutes)
    else:
        search.run()


def _check_text(several):
    """UserError for an idea whose training text has more of the validation text than the
    baseline's."""
    for name, idea in several.items():
        if 'data.corpus' in idea.changes:
            with ideas.of_idea(name):
                ours, theirs = map(text.overlap, (idea, several[BASELINE]))
                if ours > theirs + MORE:
                    raise UserError(
                        f'data.corpus: its text has {ours:.1%} of the validation text (sequences '
                        f"of {text.LENGTH} tokens), the baseline's {theirs:.1%}"
                    )


class Search:
    """One invocation: a baseline and ideas, trained on a stage's seeds, and compared.

    several: {name: Idea}, the baseline among them. plan: the ledger's row of a confirmation, None
    for a screen. identity: the baseline, as in the ledger.
    """

    def __init__(
        self,
        config: ConfigDict,
        out: pathlib.Path,
        several: dict[str, Idea],
        plan: dict | None,
        identity: str,
    ) -> None:
        self.config = config
        self.out = out
        self.ideas = several
        self.plan = plan
        self.identity = identity
        self.stage = 'screen' if plan is None else 'confirm'
        self.seeds = range(config.seeds) if plan is None else plan['seeds']
        self.rows = trials.read(out)  # of all trials so far
        self.keys = {
            (name, seed): idea.key(seed) for name, idea in several.items() for seed in self.seeds
        }
        self.failed: dict[str, str] = {}  # {idea: its error}
        self.seconds = 0.0  # of this invocation's trials
        self.tokens = 0

    @property
    def baseline(self) -> Idea:
        return self.ideas[BASELINE]

    def run(self) -> None:
        if self.plan is not None:
            # Before any trial: what is begun counts, also if it is given up
            self.plan = ledger.append(self.out, self.plan)
        for name in self.ideas:
            before = self.tokens
            for seed in self.seeds:
                self._do(name, seed)
            if BASELINE in self.failed:
                break  # nothing could be compared
            if name != BASELINE:
                self._compare(name)
            if self.tokens > before:
                self._write_report()
        self._write_report()
        rows = ledger.read(self.out)
        lines = report.differences(rows, self.stage, self.identity, self.ideas)
        lines += report.summary(rows, self.identity) + self._plateau()
        print('\n'.join(lines) + f'\nreport: {self.out / "report.md"}', flush=True)
        if self.failed:
            lines = [f'{name}: {error}' for name, error in self.failed.items()]
            raise UserError(f'trials failed: {"; ".join(lines)}')

    def _do(self, name, seed):
        """Trains an idea with a seed, if necessary. Its mistake is kept for the end.

        An idea that failed is not trained with other seeds: it would fail again.
        """
        idea = self.ideas[name]
        key = self.keys[name, seed]
        if name in self.failed or key in self.rows:
            return
        began = time.monotonic()
        print(f'{name}, seed {seed}: ', end='', flush=True)
        try:
            head = ledger.head(ledger.read(self.out))
            row = trials.train(idea, seed, self.out, head, self.config.keep_checkpoints)
        except Interrupted:
            raise
        except Exception as error:  # any: the user's code may raise it
            line = (
                str(error) if isinstance(error, UserError) else f'{type(error).__name__}: {error}'
            )
            self.failed[name] = errors.one_line(line, 300)
            print(f'failed: {self.failed[name]}', flush=True)
            return
        self.rows[key] = row
        self.seconds += time.monotonic() - began
        self.tokens += idea.tokens
        left = self._left() * self.seconds / self.tokens
        print(
            f'loss {row["loss"]:.4f} after {row["updates"]:,} updates, {row["tokens_per_s"]:,.0f} '
            f'tokens/s, about {duration(left)} left',
            flush=True,
        )

    def _done(self, name):
        """The rows of an idea's finished trials, in the order of the seeds."""
        keys = [self.keys[name, seed] for seed in self.seeds]
        return [self.rows[key] for key in keys if key in self.rows]

    def _left(self):
        """The number of tokens still to train on."""
        return sum(
            self.ideas[name].tokens
            for (name, _), key in self.keys.items()
            if key not in self.rows and name not in self.failed
        )

    def _compare(self, name):
        """Writes the comparison of an idea with the baseline to the ledger, or why it failed."""
        idea = self.ideas[name]
        planned = {} if self.plan is None else {'planned': self.plan['key']}
        if name in self.failed:
            row = ledger.about(self.stage, idea, self.identity) | planned
            ledger.append(self.out, row | {'verdict': f'failed: {self.failed[name]}'})
            return
        pairs = list(zip(self._done(name), self._done(BASELINE)))
        warning = ' '.join(self._plateau()) or None
        row = ledger.row_of(self.stage, idea, pairs, self.identity, self.config.least, warning)
        ledger.append(self.out, row | planned)

    def _write_report(self):
        model = self.baseline.config.model
        splits = self.baseline.manifest['splits']
        about = (
            f'Baseline: {model.kind}, {model.n_layer} layers, width {model.n_embd}, '
            f'{model.n_head} heads, context {model.n_ctx}; {splits["train"]["tokens"]:,} '
            f'training tokens, {splits["valid"]["tokens"]:,} held out.'
        )
        about = ' '.join([about, *self._plateau()])
        report.write(self.out, ledger.read(self.out), self.identity, self.rows, about)

    def _plateau(self):
        """A sentence, if trials are so short that the baseline has learned hardly anything."""
        losses = [row['loss'] for row in self._done(BASELINE)]
        stuck = sum(loss > self._unigram_loss - counts.SLACK for loss in losses)
        if not stuck:
            return []
        return [
            f'Warning: {stuck} of {len(losses)} trials of the baseline hardly pass the loss of a '
            f'unigram model ({self._unigram_loss:.3f}), which ignores context. Trials this short '
            'tell little about longer ones: give more --minutes or updates.'
        ]

    @functools.cached_property
    def _unigram_loss(self):
        return counts.unigram_loss(prepared.open_split(self.baseline.text, 'train'))

    def print_plan(self, minutes: float | None) -> None:
        """Prints the trials of a dry run, and their time.

        The time is at the speed of the finished trials, or by `minutes`, the time of a trial.
        """
        missing = 0
        left = self._left()
        for name, idea in self.ideas.items():
            done = len(self._done(name))
            to_do = len(self.seeds) - done
            missing += to_do
            print(f'{name}: {done} trials done, {to_do} to do, {idea.tokens:,} tokens each')
        speed = None
        if self.rows:
            speed = statistics.median(row['tokens_per_s'] for row in self.rows.values())
        elif minutes:
            base = self.baseline.tokens / (ledger.LONGER if self.stage == 'confirm' else 1)
            speed = base / (60 * minutes)
        time = 'no trial has been timed yet'
        if speed:
            time = f'about {duration(left / speed)} at {speed:,.0f} tokens a second'
        print(f'in all {missing} trials, {left:,} tokens to train on: {time}', flush=True)


def _parsed(texts):
    """(name, changes) of each idea. UserError if two have the same name."""
    found = {BASELINE: {}}
    for name, changes in map(ideas.parse, texts):
        if name in found:
            raise UserError(f'duplicate idea {name!r}')
        found[name] = changes
        yield name, changes


def _with_minutes(config, out, minutes):
    """The config with as many updates as take so many minutes.

    They are measured once for a baseline, and written to the ledger. So trials stay exact and
    paired.
    """
    rules.require({'--minutes': (minutes, rules.positive())})
    base = ideas.configured(config.pretrain, {}, out)
    of = ideas.build(base, {BASELINE: {}}, out)[BASELINE].key(0)
    timed = {'stage': 'timed', 'minutes': minutes, 'baseline': of}
    known = [row['updates'] for row in ledger.read(out) if timed.items() <= row.items()]
    if known:
        updates = known[0]
    else:
        updates = _updates(base, out, minutes)
        ledger.append(out, timed | {'updates': updates})
    print(f'{minutes:g} minutes are {updates:,} updates of the baseline', flush=True)
    config = config.copy_and_resolve_references()
    config.pretrain = ideas.lengthened(config.pretrain, updates / config.pretrain.train.steps)
    return config


def _updates(base, out, minutes):
    """The number of updates of a baseline that take so many minutes here."""
    directory = out / 'runs' / 'timed'
    setting = pretraining.resolve(from_hub.located(base), directory)
    with trials.logged(directory):
        return pretraining.plan(setting, minutes).total


def _adopt(base, out, row):
    """The baseline with a confirmed idea, which is written as a config for `gpt1 pretrain`."""
    ledger.adopt(out, row)
    base = config_file.with_fields(base, ledger.checked(row, out))
    user_code.trust(base)  # the copies of files that were allowed to run
    names = [row['idea'] for row in ledger.read(out) if row['stage'] == 'adopt']
    fields = rules.flatten(base)
    ledger.write_baseline(out, names, fields, rules.flatten(pretrain_config.get_config()))
    print(f'adopted {row["idea"]!r}: gpt1 pretrain --config={out / "baseline.py"}', flush=True)
    return base


def _define_flags():
    config_file.define('ablate', 'Ideas; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string(
        'out', 'runs/ablate', 'Directory of the search; trials that are finished there are reused.'
    )
    flags.DEFINE_multi_string(
        'idea', [], "'NAME: FIELD=VALUE ...' in place of config.ideas; may be repeated."
    )
    flags.DEFINE_bool(
        'confirm', False, 'Train ideas that look better for twice as long, on fresh seeds.'
    )
    flags.DEFINE_string('adopt', None, 'Make this confirmed idea part of the baseline.')
    flags.DEFINE_string(
        'certify', None, 'Write the certificate of this confirmed idea, for gpt1 verify.'
    )
    flags.DEFINE_float(
        'minutes',
        None,
        'Minutes a trial, in place of config.pretrain.train.steps. Measured once.',
        lower_bound=0.001,
    )
    flags.DEFINE_bool(
        'dry_run', False, 'Prepare the text, print the trials and an estimated time, train nothing.'
    )


def main() -> None:
    f = flags.FLAGS
    if f.idea or f.confirm or f.adopt or f.certify:
        f.config.ideas = tuple(f.idea)
    run(f.config, f.out, f.confirm, f.adopt, f.minutes, f.dry_run, f.certify)


if __name__ == '__main__':
    cli.run(main, _define_flags)
