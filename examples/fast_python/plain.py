"""The four programs in plain Python: what every other form is compared with.

A matrix is a list of rows. `N` points of `F` numbers, `K` components of a mixture.
"""

import math

Matrix = list[list[float]]


def product(a: Matrix, b: Matrix) -> Matrix:
    """The matrix product a b."""
    columns = list(zip(*b, strict=True))
    return [
        [sum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in a
    ]


def mixture(
    point: Matrix, mean: Matrix, variance: Matrix, weight: list[float]
) -> tuple[Matrix, Matrix, list[float], float]:
    """One step of expectation maximisation (EM) for a mixture of normal distributions.

    Returns:
        New means and variances (K, F), new weights (K,), the mean log likelihood of the old ones.
    """
    n_components, n_features = len(mean), len(mean[0])
    total = [0.0] * n_components
    sums = [[0.0] * n_features for _ in range(n_components)]
    squares = [[0.0] * n_features for _ in range(n_components)]
    log_likelihood = 0.0
    for x in point:
        joint = []
        for k in range(n_components):
            log_density = math.log(weight[k])
            for f in range(n_features):
                difference = x[f] - mean[k][f]
                log_density -= 0.5 * difference * difference / variance[k][f]
                log_density -= 0.5 * math.log(2 * math.pi * variance[k][f])
            joint.append(log_density)
        largest = max(joint)
        log_total = largest + math.log(sum(math.exp(value - largest) for value in joint))
        log_likelihood += log_total
        for k in range(n_components):
            share = math.exp(joint[k] - log_total)
            total[k] += share
            for f in range(n_features):
                sums[k][f] += share * x[f]
                squares[k][f] += share * x[f] * x[f]
    new_mean = [[value / total[k] for value in sums[k]] for k in range(n_components)]
    new_variance = [
        [squares[k][f] / total[k] - new_mean[k][f] ** 2 for f in range(n_features)]
        for k in range(n_components)
    ]
    return (
        new_mean,
        new_variance,
        [value / len(point) for value in total],
        log_likelihood / len(point),
    )


def inverse(a: Matrix, upstream: Matrix) -> tuple[Matrix, Matrix]:
    """The inverse of `a`, and the gradient of sum(upstream * inverse) with respect to `a`."""
    n = len(a)
    rows = [list(row) + [float(i == j) for j in range(n)] for i, row in enumerate(a)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda j: abs(rows[j][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        divisor = rows[i][i]
        rows[i] = [value / divisor for value in rows[i]]
        for j in range(n):
            if j != i:
                factor = rows[j][i]
                rows[j] = [x - factor * y for x, y in zip(rows[j], rows[i], strict=True)]
    result = [row[n:] for row in rows]
    transposed = [list(column) for column in zip(*result, strict=True)]
    gradient = product(product(transposed, upstream), transposed)
    return result, [[-value for value in row] for row in gradient]


def elementwise(x: list[float], y: list[float]) -> list[float]:
    """A soft threshold: x / (1 + exp(-x)) where y is positive, else 0.1 x."""
    return [a / (1 + math.exp(-a)) if b > 0 else 0.1 * a for a, b in zip(x, y, strict=True)]
