"""What tests of figures share."""
import pytest

from experiments import plots
from experiments.lib import figures, figures_blimp


@pytest.fixture
def drawn(monkeypatch):
    """The figures that would be saved."""
    kept = []
    for module in (figures, figures_blimp, plots):
        monkeypatch.setattr(module, 'save', lambda figure, path: kept.append(figure))
    yield kept
    for figure in kept:
        plots.plt.close(figure)
