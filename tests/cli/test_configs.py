"""The configs that come with the package: the paper's numbers, and a comment for each field."""
from tiny import ROOT, load_config


def test_the_papers_numbers_are_the_defaults():
    c = load_config('pretrain')
    assert (c.model.n_layer, c.model.n_embd, c.model.n_head, c.model.n_inner, c.model.n_ctx) == (12, 768, 12, 3072, 512)
    assert (c.model.embd_dropout, c.model.attn_dropout, c.model.resid_dropout) == (0.1, 0.1, 0.1)
    assert (c.batch.size, c.train.epochs, c.tokenizer.merges) == (64, 100, 40000)
    assert (c.optimizer.peak_rate, c.optimizer.warmup_steps, c.optimizer.weight_decay) == (2.5e-4, 2000, 0.01)
    assert (c.optimizer.b1, c.optimizer.b2, c.optimizer.eps) == (0.9, 0.999, 1e-8)


def test_every_field_of_a_config_has_a_comment():
    for file in sorted((ROOT / 'configs').glob('*.py')):
        for line in file.read_text().splitlines():
            if line.strip().startswith('config.') and 'ConfigDict(' not in line:
                assert '#' in line, f'{file.name}: {line}'
