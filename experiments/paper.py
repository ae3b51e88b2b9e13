"""The paper's figures, as data: Tables 2 to 5 (each in percent, on the test set) and what it says of Figure 2."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Figure:
    """One number of a table, and where its counterpart is found in results.jsonl.

    label: as shown. task, metric: names in gpt1_jax. paper: in percent, on the test set; None where it has none.
    split: the one that stands in where the test labels are not public. group: of RACE. about: what to know of it.
    """
    label: str
    task: str
    metric: str
    paper: float | None
    split: str = 'dev'
    group: str | None = None
    about: str = ''


MNLI = Figure('MNLI matched', 'mnli', 'accuracy', 82.1)
MNLI_MM = Figure('MNLI mismatched', 'mnli', 'accuracy', 81.4, split='dev_mismatched')
QNLI = Figure('QNLI', 'qnli', 'accuracy', 88.1,
              about="the paper's QNLI is the first release, withdrawn since; its figure on the present one is 87.4")
RTE = Figure('RTE', 'rte', 'accuracy', 56.0)
COLA = Figure('CoLA', 'cola', 'matthews', 45.4)
SST2 = Figure('SST-2', 'sst2', 'accuracy', 91.3)
MRPC = Figure('MRPC', 'mrpc', 'f1', 82.3)
STSB = Figure('STS-B', 'stsb', 'pearson', 82.0)
QQP = Figure('QQP', 'qqp', 'f1', 70.3)

TABLE2 = (MNLI, MNLI_MM, Figure('SNLI', 'snli', 'accuracy', 89.9), Figure('SciTail', 'scitail', 'accuracy', 88.3), QNLI,
          RTE)
TABLE3 = (Figure('Story Cloze', 'story_cloze', 'accuracy', 86.5, about="the authors' README: 85.8, median of 10 runs"),
          Figure('RACE-m', 'race', 'accuracy', 62.9, group='middle'),
          Figure('RACE-h', 'race', 'accuracy', 57.4, group='high'), Figure('RACE', 'race', 'accuracy', 59.0))
TABLE4 = (COLA, SST2, MRPC, STSB, QQP)
GLUE_SCORE = 72.8                          # Table 4, last column

# The nine tasks of GLUE with the figures that are averaged first (the leaderboard's, of the same submission).
GLUE = {
    'CoLA': (COLA,), 'SST-2': (SST2,), 'MRPC': (MRPC, Figure('MRPC', 'mrpc', 'accuracy', 75.7)),
    'STS-B': (STSB, Figure('STS-B', 'stsb', 'spearman', 80.0)), 'QQP': (QQP, Figure('QQP', 'qqp', 'accuracy', 88.5)),
    'MNLI': (MNLI, MNLI_MM), 'QNLI': (QNLI,), 'RTE': (RTE,), 'WNLI': (Figure('WNLI', 'wnli', 'accuracy', 53.4),)}

# Table 5: its columns, and the figures that a column is the mean of.
COLUMNS = {'CoLA (mc)': (COLA,), 'SST2 (acc)': (SST2,), 'MRPC (F1)': (MRPC,), 'STSB (pc)': (STSB,), 'QQP (F1)': (QQP,),
           'MNLI (acc)': (MNLI, MNLI_MM), 'QNLI (acc)': (QNLI,), 'RTE (acc)': (RTE,)}
LARGE, SMALL = ('SST2 (acc)', 'QQP (F1)', 'MNLI (acc)', 'QNLI (acc)'), ('CoLA (mc)', 'MRPC (F1)', 'STSB (pc)',
                                                                        'RTE (acc)')
TABLE5 = {                                 # condition (experiments.planned) -> the columns in order
    'full': (45.4, 91.3, 82.3, 82.0, 70.3, 81.8, 88.1, 56.0),
    'no_pretraining': (18.9, 84.0, 79.4, 30.9, 65.5, 75.7, 71.2, 53.8),
    'no_aux': (47.9, 92.0, 84.9, 83.2, 69.8, 81.1, 86.9, 54.4),
    'lstm': (30.3, 90.5, 83.2, 71.8, 68.1, 73.7, 81.1, 54.6)}
TABLE5_AVERAGE = {'full': 74.7, 'no_pretraining': 59.9, 'no_aux': 75.0, 'lstm': 69.1}  # as printed
NAMES = {'full': 'full', 'no_pretraining': 'no pretraining', 'no_aux': 'no auxiliary LM', 'lstm': 'LSTM'}


def column(condition: str, name: str) -> float:
    """A cell of Table 5, in percent."""
    return TABLE5[condition][list(COLUMNS).index(name)]


def difference(a: str, b: str, name: str) -> float:
    """What a column of Table 5 says of two conditions, in points."""
    return column(a, name) - column(b, name)
