"""python src/train.py experiment=example"""

import hydra
import lightning as L
from omegaconf import DictConfig

from src.utils.instantiators import instantiate_all


def train(cfg: DictConfig):
    if cfg.get("seed"):
        L.seed_everything(cfg.seed, workers=True)
    datamodule = hydra.utils.instantiate(cfg.data)
    model = hydra.utils.instantiate(cfg.model)
    callbacks = instantiate_all(cfg.get("callbacks"))
    logger = instantiate_all(cfg.get("logger"))
    trainer = hydra.utils.instantiate(cfg.trainer, callbacks=callbacks, logger=logger)
    if cfg.get("train"):
        trainer.fit(model=model, datamodule=datamodule, ckpt_path=cfg.get("ckpt_path"))
    if cfg.get("test"):
        best = trainer.checkpoint_callback.best_model_path or None
        trainer.test(model=model, datamodule=datamodule, ckpt_path=best)
    return trainer, model


@hydra.main(version_base="1.3", config_path="../configs", config_name="train.yaml")
def main(cfg: DictConfig) -> None:
    train(cfg)


if __name__ == "__main__":
    main()
