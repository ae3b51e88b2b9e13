"""What a run prints: the table of parameters at its start, and a line every so many steps."""
import jax


def print_parameters(tree):
    """Names, shapes and counts of a parameter tree's leaves (arrays or shapes), and the total."""
    leaves = [(jax.tree_util.keystr(path, simple=True, separator='/'), leaf)
              for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]
    width = max(len(name) for name, _ in leaves)
    for name, leaf in leaves:
        print(f'  {name:{width}}  {" x ".join(map(str, leaf.shape)):>22}  {leaf.size:>12,}')
    print(f'  {"parameters":{width}}  {"":>22}  {sum(leaf.size for _, leaf in leaves):>12,}', flush=True)


def print_line(step, total, metrics):
    """step, loss, rate, tokens/s, time left. metrics: as training.fit logs them."""
    print(f"step {step:,}/{total:,}  loss {metrics['loss']:.4f}  rate {metrics['learning_rate']:.2e}  "
          f"{metrics['tokens_per_s']:,.0f} tokens/s  {duration(metrics['seconds_left'])} left", flush=True)


def duration(seconds):
    """'1:02:03', or '2 d 1:02:03'."""
    days, rest = divmod(int(seconds), 86400)
    return (f'{days} d ' if days else '') + f'{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02}'
