# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: myproj
#     language: python
#     name: myproj
# ---

# %% [markdown]
# # Runs and trials as tables
#
# The .py file is kept in git, the notebook is not: it holds no outputs and merges well.
# `jupytext --sync compare_runs.py` makes the notebook next to it, and keeps both the same.
# Put both into `notebooks/` of your project. In the head, write your package in place of `myproj`.
# `make kernel` brings the kernel.

# %%
import pandas as pd
from labrig import load, queue, runs, trials

# %% [markdown]
# The trials, as `lab trials tree` shows them.

# %%
tree = pd.DataFrame(trials())
print(tree[["name", "parent", "status", "n_runs", "metric", "best", "mean", "sd", "n_seeds"]])

# %% [markdown]
# Finished runs: a column for each metric, and for each setting that differs. The filters are those
# of `lab runs list`.

# %%
table = pd.DataFrame(runs("status=finished"))
print(table[["run_id", "trial", "seed", "val/loss", "test/acc"]])
print(table.groupby("trial")["test/acc"].agg(["mean", "std", "count"]))

# %% [markdown]
# The curve of each of these runs.

# %%
curves = pd.concat(
    pd.read_json(f"{run['run_dir']}/metrics.jsonl", lines=True).assign(run_id=run["run_id"])
    for run in runs("status=finished")
)
# A run that was stopped may have a step twice: the later row counts.
curves = curves.dropna(subset=["val/loss"]).drop_duplicates(["run_id", "step"], keep="last")
print(curves.pivot(index="step", columns="run_id", values="val/loss"))

# %% [markdown]
# The trained model of the best run, on the CPU, in evaluation mode.

# %%
best = tree.sort_values("best").iloc[0]
model = load(best["best_run"])
print(best["name"], sum(parameter.numel() for parameter in model.parameters()), "parameters")

# %% [markdown]
# `submit("trial=wide", "seed=0,1,2")` sends jobs and returns at once; `logs(run)` is what one has
# printed.

# %%
print(pd.DataFrame(queue()))
