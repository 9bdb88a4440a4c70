"""`RecordLoader` in Lightning's Trainer and in Fabric, where they take a `DataLoader` and make others of it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import SequentialSampler

from recordzoo import RecordLoader
from tests.frameworks.samples import BATCH, COUNT, Numbers, are_all

lightning = pytest.importorskip("lightning", reason="needs the extra `frameworks`: make frameworks")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def _own_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`seed_everything` writes these variables, which every later Trainer of the process would read."""
    for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
        monkeypatch.setenv(name, "")  # noted, so that it is put back as it was
        monkeypatch.delenv(name)


class Model(lightning.LightningModule):
    """Keeps the labels of the batches it gets, epoch by epoch."""

    def __init__(self, make: Any = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.epochs: list[list[list[int]]] = []
        self.make = make  # a loader, in the hook

    def train_dataloader(self) -> Any:
        return self.make()

    def on_train_epoch_start(self) -> None:
        self.epochs.append([])

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        self.epochs[-1].append(batch[1].tolist())
        return self.layer(batch[0]).mean()

    def predict_step(self, batch: Any, index: int) -> list[int]:
        return batch[1].tolist()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


def trainer(folder: Path, **options: Any) -> Any:
    return lightning.Trainer(
        **{"max_epochs": 2, **options},
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


def fit(folder: Path, loader: RecordLoader | None = None, make: Any = None, **options: Any) -> tuple[Any, Any]:
    """Train; return the epochs' labels, and the loader that was used in the end."""
    model, running = Model(make), trainer(folder, **options)
    running.fit(model, *([] if loader is None else [loader]))
    return model.epochs, running.train_dataloader


def test_fit(tmp_path: Path) -> None:
    loader = RecordLoader(Numbers(), BATCH, shuffle=True, seed=1)
    epochs, used = fit(tmp_path, loader)
    assert used is loader
    assert are_all(epochs[0])
    assert are_all(epochs[1])
    right = RecordLoader(Numbers(), BATCH, shuffle=True, seed=1)
    assert epochs == [[labels.tolist() for _, labels in right] for _ in range(2)]


FIRST = [[[0, 1, 2, 3], [4, 5, 6, 7]]] * 2


@pytest.mark.filterwarnings("ignore:You requested to overfit:UserWarning")
@pytest.mark.parametrize("options", [{}, {"shuffle": "block", "drop_cache": True}, {"weights": range(COUNT)}])
@pytest.mark.parametrize("in_hook", [False, True])
def test_overfit_batches(tmp_path: Path, options: dict[str, Any], in_hook: bool) -> None:
    """It makes another loader, of the attributes or, in a hook, of the arguments that it has noted."""

    def make() -> RecordLoader:
        return RecordLoader(Numbers(), BATCH, precision="fast", num_workers=2, **options)

    lightning.seed_everything(1, workers=True, verbose=False)
    epochs, used = fit(tmp_path, None if in_hook else make(), make, overfit_batches=2)
    assert epochs == FIRST
    assert type(used) is RecordLoader
    assert type(used.sampler) is SequentialSampler
    assert (used.precision, used.num_workers, used.drop_last) == ("fast", 2, "drop_last" in options)


def test_predict(tmp_path: Path) -> None:
    """Indices of each batch are noted by the batch sampler, while the loader works ahead."""
    noted: list[Any] = []

    class Writer(lightning.pytorch.callbacks.BasePredictionWriter):
        def write_on_batch_end(self, trainer: Any, module: Any, found: Any, indices: Any, *others: Any) -> None:
            noted.append((found, list(indices)))

    running = trainer(tmp_path)
    running.callbacks.append(Writer(write_interval="batch"))
    running.predict(Model(), RecordLoader(Numbers(), BATCH, drop_last=True, num_workers=2))
    assert noted == [([*range(start, start + BATCH)],) * 2 for start in range(0, COUNT, BATCH)]
    assert type(running.predict_dataloaders) is RecordLoader
