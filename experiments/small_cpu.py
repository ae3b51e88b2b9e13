"""Every table and figure of the paper in small, from books to report.md, in one to two hours on two CPU cores.

python -m experiments.small_cpu --books=DIR_OR_GLOB --data=DATA --out=runs/small_cpu

--books: a directory with train/ and valid/, or with .txt files, or a pattern of these. --data: the directory of the
data sets, as config.directories names them; what is missing is n/a. Interrupted, the same command goes on. One process
does everything, so that runs share their compiled programs.
"""
import glob
import importlib
import pathlib
import sys
import time
import traceback

from absl import flags
from ml_collections import config_flags

from experiments import planned
from experiments import run as runs
from experiments.report import table
from gpt1_jax import cli, pretrain, results
from gpt1_jax.errors import Interrupted, UserError
from gpt1_jax.progress import duration

# Each script and what it writes, in the order of the report.
SCRIPTS = {'claims': 'claims.md', 'table2_nli': 'table2.md', 'table3_qa': 'table3.md',
           'table4_similarity_classification': 'table4.md', 'table5_ablations': 'table5.md',
           'figure2_layers': 'figure2_layers.md', 'figure2_zero_shot': 'figure2_zero_shot.md'}
STAGES = tuple(reversed(SCRIPTS))  # the claims are read off all the others
HELD_OUT = '0.02'  # of a corpus without validation books


def run(config, books, data, out):
    """Pretrain both models, make every table and figure, write OUT/report.md; returns the stages' failures, {name:
    line}. UserError where the text or the data is missing or pretraining the Transformer fails."""
    config, out = config.copy_and_resolve_references(), pathlib.Path(out)
    config.out, config.data, failures, started = str(out), str(data), {}, time.perf_counter()
    planned.check(config, pretrained=False)
    config.pretrain.data.corpus, config.pretrain.data.valid = corpus(books, config.books, config.valid_books)
    out.mkdir(parents=True, exist_ok=True)

    def stage(name, function, *arguments):
        print(f'\n=== {name} ({duration(time.perf_counter() - started)})', flush=True)
        began = time.perf_counter()
        try:
            return function(*arguments)
        except Interrupted:
            raise
        except Exception as error:
            failures[name] = ' '.join(str(error).split()) if isinstance(error, UserError) else repr(error)
            print(f'{name}: {failures[name]}', flush=True)
            if not isinstance(error, UserError):
                traceback.print_exc()
        finally:
            results.append(out / 'stages.jsonl', {'stage': name, 'seconds': time.perf_counter() - began})

    pretrained = stage('pretraining the Transformer', pretrain.run, config.pretrain, out / 'pretrain')
    if pretrained is None:
        raise UserError(f'pretraining: {failures["pretraining the Transformer"]}')
    config.pretrained = str(pretrained.path)
    lstm = stage('pretraining the LSTM', pretrain.run, lstm_config(config, out / 'pretrain' / 'tokens'),
                 out / 'pretrain_lstm')
    config.lstm = None if lstm is None else str(lstm.path)
    for name in STAGES:
        stage(name, lambda: importlib.import_module(f'experiments.{name}').run(config))
    write(out, config, failures)
    return failures


def lstm_config(config, tokens):
    """config.pretrain with the differences of config.lstm_differs, on the Transformer's tokens."""
    lstm = config.pretrain.copy_and_resolve_references()
    lstm.update(config.lstm_differs)
    lstm.data.corpus, lstm.data.valid, lstm.data.tokens = '', HELD_OUT, str(tokens)
    return lstm


def corpus(books, limit, valid_limit):
    """(config.data.corpus, config.data.valid): at most `limit` files, evenly spaced by name."""
    path = pathlib.Path(books)
    if (path / 'train').is_dir() and (path / 'valid').is_dir():
        train, valid = (sorted(map(str, (path / name).glob('*.txt'))) for name in ('train', 'valid'))
    else:
        train, valid = sorted(map(str, path.rglob('*.txt')) if path.is_dir() else glob.glob(str(books))), []
    if not train:
        raise UserError(f'--books={books}: no .txt files there')
    return ','.join(spaced(train, limit)), ','.join(spaced(valid, valid_limit)) or HELD_OUT


def spaced(names, limit):
    return [names[i * len(names) // limit] for i in range(limit)] if len(names) > limit else names


def write(out, config, failures):
    """OUT/report.md: what was run, then every table and figure that is there."""
    facts = [['command', ' '.join(['python -m experiments.small_cpu', *sys.argv[1:]])]]
    for title, directory in (('Transformer', config.pretrained), ('LSTM', config.lstm)):
        rows = results.read(pathlib.Path(directory) / 'metrics.jsonl') if directory else []
        valid = [row for row in rows if row.get('valid_loss') is not None]
        if valid:
            facts.append([f'{title}: validation perplexity', f'{valid[-1]["valid_perplexity"]:.2f} a token after '
                          f'{valid[-1]["step"]:,} updates'])
    model, tuned = config.pretrain.model, config.finetune
    limits = {task: config.tasks[task].get('data', {}).get('train_rows', tuned.data.train_rows)
              for task in sorted(config.tasks)}
    facts += [['Transformer', f'{model.n_layer} layers x {model.n_embd} wide, context {model.n_ctx}'],
              ['LSTM', f'{config.lstm_differs.model.n_units} units'],
              ['pretraining', f'{config.pretrain.train.steps:,} updates of {config.pretrain.batch.size} x '
               f'{model.n_ctx} tokens of {config.books} books at most'],
              ['training rows at most', f'{tuned.data.train_rows:,}; '
               + ', '.join(f'{task} {rows:,}' for task, rows in limits.items())],
              ['evaluated rows at most', f'{tuned.data.eval_rows:,} a split'],
              ['fine-tuning runs', f'{runs_done(config):,}']]
    stages = results.read(out / 'stages.jsonl')  # of every start of this job
    for name in dict.fromkeys(row['stage'] for row in stages):
        facts.append([name, duration(sum(row['seconds'] for row in stages if row['stage'] == name))])
    versions = results.versions()
    facts += [['in all', duration(sum(row['seconds'] for row in stages))], ['commit', versions['commit']],
              ['code', versions['code']], ['jax', versions['versions']['jax']]]
    lines = ['# The paper in small', '', *table(('', 'value'), facts)]
    lines += [f'**{name} failed:** {line}\n' for name, line in failures.items()]
    for name, written in SCRIPTS.items():
        if (out / written).exists() and (name not in failures or 'runs failed' in failures[name]):
            lines += [line.replace('# ', '## ', 1) if line.startswith(('# ', '## ')) else line
                      for line in (out / written).read_text(encoding='utf-8').splitlines()] + ['']
    (out / 'report.md').write_text('\n'.join(lines).rstrip() + '\n', encoding='utf-8')
    print(f'report: {out / "report.md"}')


def runs_done(config):
    """How many fine-tuning runs the tables stand on: those that this code made, or any where that is allowed."""
    code = results.code_digest()
    return len({row['key'] for row in results.read(runs.results_path(config))
                if row['kind'] == 'finetune' and (config.any_version or row['code'] == code)})


def _define_flags():
    config_flags.DEFINE_config_file('config', 'configs/small_cpu.py', 'Sizes; --config.FIELD=VALUE overrides a field.')
    flags.DEFINE_string('books', None, 'Directory with train/ and valid/ or .txt files, or a pattern.')
    flags.DEFINE_string('data', None, 'Directory that holds the data sets.')
    flags.DEFINE_string('out', 'runs/small_cpu', 'Directory of everything written; an unfinished job there goes on.')


def main():
    f = flags.FLAGS
    for name in ('books', 'data'):
        if not f[name].value:
            raise UserError(f'give --{name}=DIR')
    failures = run(f.config, f.books, f.data, f.out)
    if failures:
        raise UserError('; '.join(f'{name}: {line}' for name, line in failures.items()))


if __name__ == '__main__':
    cli.run(main, _define_flags)
