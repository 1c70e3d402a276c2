#!/bin/bash
@@{directives}
# @@{title}
# Again by hand, continuing the same run: sbatch @@{script}
if [ -z "${SLURM_JOB_ID:-}" ]; then echo "this script runs inside a Slurm job; type: sbatch $0" >&2 && exit 2; fi

@@{common}

NODES=@@{nodes} MAX_REQUEUES=@@{max_requeues}
ID=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
ID=${ID:-$SLURM_JOB_ID}
RESTART=${SLURM_RESTART_COUNT:-0} # unset on the first start
echo "job $ID, start $((RESTART + 1)), on $SLURM_JOB_NODELIST, $(date '+%F %T'): $RUN_DIR"
if [ "$RESTART" -gt "$MAX_REQUEUES" ]; then echo "requeued more than $MAX_REQUEUES times; stopping" && exit 1; fi

# ---- rendezvous: the first node; a port below the ephemeral ones, different for jobs that share a node
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + (SLURM_JOB_ID * 7 + RESTART) % 10000))
RUNNING_JOBS=$(squeue --noheader --me --format=%A 2>/dev/null | tr '\n' ' ') || RUNNING_JOBS=""
export MASTER_ADDR MASTER_PORT RUNNING_JOBS
export SRUN_CPUS_PER_TASK=$CPUS_PER_TASK # since Slurm 22.05 srun no longer takes it from sbatch

on_every_node() { # on_every_node TIMEOUT_S WHAT; --export=ALL: srun would inherit an --export=NONE
  timeout "$1" srun --export=ALL --overlap --mem=0 --gres=none --nodes="$NODES" --ntasks="$NODES" --ntasks-per-node=1 \
    --cpus-per-task=1 bash "$SCRIPT" "$2"
}
clean_nodes() { if [ "$NODES" = 1 ]; then clean; else on_every_node 20 clean || true; fi; }
trap clean_nodes EXIT
if [ "$NODES" = 1 ]; then prepare; else on_every_node 600 prepare; fi

# ---- the ranks: one task per GPU
srun --export=ALL --kill-on-bad-exit=1 @@{label}--nodes="$NODES" --ntasks-per-node="$TASKS_PER_NODE" \
  --cpus-per-task="$CPUS_PER_TASK" @@{launcher_options}bash "$SCRIPT" rank &
STEP=$!
code=0
await_step || code=$?

# ---- the end, or once more
if [ -e "$RUN_DIR/requeue" ] && scontrol show job "$ID" | grep -q JobState=RUNNING; then # not one that was cancelled
  echo "saved; going on after a requeue, $(date '+%F %T')"
  clean_nodes
  trap '' TERM
  trap - EXIT ERR
  scontrol requeue "$ID" && sleep 120 # which ends this shell
fi
echo "ended with code $code, $(date '+%F %T')"
exit "$code"
