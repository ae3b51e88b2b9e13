"""Section 4.2, Table 4: the GLUE score, a mean over tasks of the means of each task's figures."""
import statistics
from collections.abc import Callable, Mapping, Sequence

from experiments import paper


def glue_score(found: Mapping[str, Sequence], mean: Callable = statistics.fmean):
    """The mean over tasks of each task's mean: MRPC, STS-B and QQP have two metrics, MNLI two sets.

    found: {task of paper.GLUE: its figures}, WNLI among them in the paper's score. mean: of a list of figures; others
    than numbers bring their own.
    """
    return mean([mean(list(figures)) for figures in found.values()])


def shared(found: Mapping[paper.Figure, object | None]) -> tuple[dict[str, list], dict[str, list], list[str]]:
    """(ours, the paper's, labels of what is missing): {task: figures} of what both have, so that the two means are
    over the same things. found: {figure of paper.GLUE: ours, or None}."""
    ours, theirs, missing = {}, {}, []
    for task, figures in paper.GLUE.items():
        there = [figure for figure in figures if found.get(figure) is not None]
        missing += [f'{figure.label} ({figure.metric})' if len({f.metric for f in figures}) > 1 else figure.label
                    for figure in figures if figure not in there]
        if there:
            ours[task] = [found[figure] for figure in there]
            theirs[task] = [figure.paper for figure in there]
    return ours, theirs, missing
