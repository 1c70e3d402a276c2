"""The test split, with the weights that the fit left."""

from __future__ import annotations

import lightning.pytorch as L

from ...hdf5.read.datamodule import H5DataModule


def run_final_test(
    trainer: L.Trainer, task: L.LightningModule, data: L.LightningDataModule
) -> list[str] | bool:
    """Tests once, with the weights as they are after `fit`; prints one line if there is no test.

    `trainer.callback_metrics` has the values of the fit and those of the test afterwards.

    Returns:
        The names of what the test measured; False: there was none.
    """
    reason = why_no_test(task, data)
    if reason is not None:
        if trainer.is_global_zero:
            print(f"not tested: {reason}", flush=True)
        return False
    # Lightning forgets them in a test: the record would have those of the last row.
    of_fit = dict(trainer.callback_metrics)
    trainer.test(task, datamodule=data, verbose=False)
    of_test = dict(trainer.callback_metrics)
    trainer.callback_metrics.update(of_fit | of_test)
    return list(of_test)


def why_no_test(task: L.LightningModule, data: L.LightningDataModule) -> str | None:
    """Why a test is not possible; None when it is."""
    if type(task).test_step is L.LightningModule.test_step:
        return f"{type(task).__name__} has no test_step"
    if type(data).test_dataloader is L.LightningDataModule.test_dataloader:
        return f"{type(data).__name__} has no test_dataloader"
    uses_split = type(data).test_dataloader is H5DataModule.test_dataloader
    if isinstance(data, H5DataModule) and uses_split and "test" not in data.layout.splits:
        return f"{data.path} has no split test"
    return None
