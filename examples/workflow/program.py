"""How sure may a trained network be? Finds the temperature for its scores (arXiv:1706.04599)."""

import h5py
import numpy as np


def main(config, log) -> None:
    """Logs the mean negative log likelihood at each temperature, and at last that of the best."""
    with h5py.File(config.data.path) as scores:
        score_NC = scores["data/score"][:].astype(np.float64)
        row_N = scores["data/row"][:]  # where each sample lies in the file that was predicted
    with h5py.File(config.program.labels) as samples:
        label_N = samples["data/y"][:][row_N]
    temperatures = np.geomspace(0.25, 4, config.program.n_temperatures)
    losses = [nll(score_NC / temperature, label_N) for temperature in temperatures]
    order = np.argsort(losses)[::-1]  # the best comes last: its row gives the numbers of the run
    for step, place in enumerate(order, 1):
        log(step, {"nll": losses[place], "temperature": float(temperatures[place])})


def nll(score_NC: np.ndarray, label_N: np.ndarray) -> float:
    """The mean negative log likelihood of labels (N,) under scores (N, C)."""
    log_total_N = np.logaddexp.reduce(score_NC, axis=1)
    return float((log_total_N - score_NC[np.arange(len(label_N)), label_N]).mean())
