"""hydra-zen: a function is the configuration; it looks itself up in `__main__`."""

import torch
from hydra_zen import store, zen


class Point:
    def __init__(self, x: float, label: str):
        self.x = x
        self.label = label


def task(lr: float, words: list, point: Point):
    torch.save(point.x, "x.pt")
    print("had", lr, list(words), point.x, point.label)


if __name__ == "__main__":
    from hydra_zen import builds

    store(
        task,
        lr=0.1,
        words=["a"],
        point=builds(Point, x=1.0, label="none", populate_full_signature=True),
        name="task",
    )
    store.add_to_hydra_store()
    zen(task).hydra_main(config_name="task", version_base="1.3", config_path=None)
