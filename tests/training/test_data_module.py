"""A tuned configuration's mini-batches in Lightning's Trainer."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from torch.nn import functional
from torch_geometric.nn.models import GraphSAGE

from a3gnn.config import TrainConfig
from a3gnn.errors import MissingDependencyError, UsageError
from a3gnn.training.tuned import TunedConfig


def test_without_lightning_the_line_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lightning", "lightning.pytorch"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "a3gnn.training.data_module", raising=False)
    with pytest.raises(MissingDependencyError) as raised:
        importlib.import_module("a3gnn.training.data_module")
    assert "A DataModule needs the package 'lightning'" in str(raised.value)
    assert 'pip install "a3gnn[lightning]"' in str(raised.value)


@pytest.fixture
def module(write_tuned, small_folder_graph):
    """Makes the data module of a configuration, of the graph that it was tuned for or of another."""
    pytest.importorskip("lightning", reason="the extra lightning is not installed")
    from a3gnn.training.data_module import TunedDataModule

    def make(data=None, **options):
        return TunedDataModule(write_tuned(config=TrainConfig(batch_size=256, seed_fanout=4)), data, **options)

    return make


def test_each_split_has_its_loader(module, small_folder_graph) -> None:
    graph, found = small_folder_graph, module()
    loaders = [found.train_dataloader(), found.val_dataloader(), found.test_dataloader(), found.predict_dataloader()]
    wanted = [graph.train_ids, graph.val_ids, graph.test_ids, range(graph.num_nodes)]
    for loader, ids in zip(loaders, wanted, strict=True):
        assert sorted(int(node) for batch in loader for node in batch.n_id[: batch.batch_size]) == sorted(ids)
    train, val, *_ = (next(iter(loader)) for loader in loaders)
    assert (train.batch_size, val.batch_size) == (256, len(graph.val_ids))
    of_a_seed = [batch.edge_index[1].bincount()[:200].max() for batch in (train, val)]
    assert of_a_seed == [4, 10]  # the configuration's fanout, and the task's


def test_a_data_needs_masks_and_a_file_is_read_once(module, small_folder_graph, write_tuned) -> None:
    data = small_folder_graph.to_pyg()
    found = module(data, eval_neighbors=[-1, -1])
    assert len(found.val_dataloader()) == -(-int(data.val_mask.sum()) // 256)
    assert next(iter(found.val_dataloader())).edge_index[1].bincount()[:200].max() > 25
    del data.test_mask
    with pytest.raises(UsageError, match=r"data must have test_mask, got .*; set data.test_mask"):
        found.test_dataloader()
    assert type(found)(TunedConfig.read(write_tuned())).tuned == type(found)(write_tuned()).tuned


@pytest.mark.filterwarnings("ignore")  # Lightning gives some of its own
def test_lightning_trains_with_it(module, small_folder_graph, tmp_path) -> None:
    found = module()
    lightning = pytest.importorskip("lightning.pytorch")

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = GraphSAGE(32, 32, 2, 5)
            self.right, self.validated = [], 0

        def training_step(self, batch, number):
            out = self.net(batch.x, batch.edge_index)[: batch.batch_size]
            return functional.cross_entropy(out, batch.y[: batch.batch_size])

        def validation_step(self, batch, number):
            self.validated += batch.batch_size

        def test_step(self, batch, number):
            out = self.net(batch.x, batch.edge_index)[: batch.batch_size]
            self.right += (out.argmax(dim=-1) == batch.y[: batch.batch_size]).tolist()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    model = Model()
    trainer = lightning.Trainer(max_epochs=15, accelerator="cpu", default_root_dir=tmp_path, **quiet)
    trainer.fit(model, found)
    trainer.test(model, found, verbose=False)
    assert model.validated >= 15 * len(small_folder_graph.val_ids)
    assert len(model.right) == len(small_folder_graph.test_ids)
    assert sum(model.right) / len(model.right) > 0.5
