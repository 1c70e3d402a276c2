"""Fits a mixture of normal distributions by expectation maximisation (EM). No network, no torch."""

import numpy as np


def main(config, log) -> None:
    """Logs the log likelihood of a point after each step, and keeps the means in `log.dir`."""
    settings = config.program
    rng = np.random.default_rng(config.seed)
    point_NF = generate(settings.n_points, settings.n_components, rng)
    chosen = rng.choice(len(point_NF), settings.n_components, replace=False)
    mean_KF = point_NF[chosen]
    variance_KF = np.ones_like(mean_KF)
    weight_K = np.full(settings.n_components, 1 / settings.n_components)

    state = log.checkpoints / "state.npz"
    first_step = 1
    if state.exists():  # a resumed run continues where it stopped
        saved = np.load(state)
        first_step = int(saved["step"]) + 1
        mean_KF, variance_KF, weight_K = saved["mean"], saved["variance"], saved["weight"]

    for step in range(first_step, settings.n_steps + 1):
        share_NK, log_likelihood = expect(point_NF, mean_KF, variance_KF, weight_K)
        mean_KF, variance_KF, weight_K = maximise(point_NF, share_NK)
        np.savez(state, step=step, mean=mean_KF, variance=variance_KF, weight=weight_K)
        log(step, {"log_likelihood": log_likelihood})
    np.savetxt(log.dir / "means.txt", mean_KF)


def generate(n_points: int, n_components: int, rng: np.random.Generator) -> np.ndarray:
    """(n_points, 2): around as many centres as there are components."""
    centre_KF = rng.normal(0, 5, (n_components, 2))
    component_N = rng.integers(0, n_components, n_points)
    return centre_KF[component_N] + rng.normal(0, 1, (n_points, 2))


def expect(point_NF, mean_KF, variance_KF, weight_K) -> tuple[np.ndarray, float]:
    """How much each point belongs to each component (N, K), and the mean log likelihood."""
    square_NK = ((point_NF[:, None] - mean_KF) ** 2 / variance_KF).sum(2)
    log_density_NK = -0.5 * (square_NK + np.log(2 * np.pi * variance_KF).sum(1))
    joint_NK = np.log(weight_K) + log_density_NK
    log_total_N = np.logaddexp.reduce(joint_NK, axis=1)
    return np.exp(joint_NK - log_total_N[:, None]), float(log_total_N.mean())


def maximise(point_NF, share_NK) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and variances (K, F), and weights (K,), that fit these shares best."""
    total_K = share_NK.sum(0)
    mean_KF = share_NK.T @ point_NF / total_K[:, None]
    square_KF = share_NK.T @ point_NF**2 / total_K[:, None]
    return mean_KF, (square_KF - mean_KF**2).clip(1e-6), total_K / len(point_NF)
