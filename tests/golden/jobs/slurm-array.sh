#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --job-name=wide
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --time=02:00:00
#SBATCH --signal=B:USR2@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=/work/ann/myproj/runs/wide/20261120-190000-abcdef/array/%a.log
#SBATCH --array=0-2%2
# Run 20261120-190000-abcdef of trial wide
# Again by hand, continuing the same run: sbatch /work/ann/myproj/runs/wide/20261120-190000-abcdef/job.sh
if [ -z "${SLURM_JOB_ID:-}" ]; then echo "this script runs inside a Slurm job; type: sbatch $0" >&2 && exit 2; fi

# ---- what runs: the code as it was at submit, whatever became of the project since
RUNS=(
  /work/ann/myproj/runs/wide/20261120-190000-abcdef
  /work/ann/myproj/runs/wide/20261120-190001-abcdef
  /work/ann/myproj/runs/wide/20261120-190002-abcdef
)
LAB_INDEX=${LAB_INDEX:-${SLURM_ARRAY_TASK_ID:-0}}
RUN_DIR=${RUNS[LAB_INDEX]}
PROJECT=/work/ann/myproj
CODE=/work/ann/myproj/runs/.code/c0ffee.tar
COMMAND=(/work/ann/myproj/.venv/bin/python -m myproj.lab rank)
SCRIPT=/work/ann/myproj/runs/wide/20261120-190000-abcdef/job.sh
TASKS_PER_NODE=1 CPUS_PER_TASK=1
JOB=${LAB_JOB:-$SLURM_JOB_ID}
NODE_DIR="${SLURM_TMPDIR:-/dev/shm}/lab-$JOB-$(id -un)-$(hostname -s)" # this node's copy of the code, removed at the end

# ---- the environment; what the launcher passes on is not made twice
if [ -z "${LAB_ENVIRONMENT_READY:-}" ]; then
  export LAB_ENVIRONMENT_READY=1
  export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 TRANSFORMERS_OFFLINE=1 WANDB_MODE=offline UV_OFFLINE=1 PIP_NO_INDEX=1 # compute nodes have no internet
fi
set -euo pipefail
trap 'echo "$SCRIPT: line $LINENO ended with code $?" >&2' ERR
export LAB_JOB=$JOB LAB_INDEX LAB_RUN_DIR=$RUN_DIR LAB_PROJECT=$PROJECT LAB_FROZEN=$NODE_DIR/code
export LAB_SNAPSHOT_COMMIT=c0ffee
export PYTHONPATH=$LAB_FROZEN/src PYTHONSAFEPATH=1 PYTHONNOUSERSITE=1 PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1
export OMP_NUM_THREADS=$CPUS_PER_TASK MKL_NUM_THREADS=$CPUS_PER_TASK

# ---- the three things that happen on a node; the script calls itself for them
prepare() { # once per node: away with what killed jobs left, then the frozen code
  local old
  for old in "${SLURM_TMPDIR:-/dev/shm}"/lab-*-"$(id -un)-$(hostname -s)"; do
    case " ${RUNNING_JOBS:-} " in "  " | *" $(basename "$old" | cut -d- -f2) "*) ;; *) rm -rf "$old" ;; esac
  done
  rm -rf "$NODE_DIR"
  mkdir -p "$LAB_FROZEN"
  tar -xmf "$CODE" -C "$LAB_FROZEN"
  for shared in data runs; do # so that relative paths to what is large and not frozen still hold
    [ -e "$LAB_FROZEN/$shared" ] || ln -s "$PROJECT/$shared" "$LAB_FROZEN/$shared"
  done
}
rank() { # one process per task; until Python listens it ignores the signals, which are repeated
  trap '' USR1 USR2 TERM
  cd "$LAB_FROZEN/"
  exec "${COMMAND[@]}"
}
clean() { rm -rf "$NODE_DIR"; }
case ${1:-} in
  prepare) prepare; exit ;;
  rank) rank ;;
  clean) clean; exit ;;
esac

# ---- signals: this shell passes the time limit and preemption on as USR2; the ranks save, and end by themselves
STEP="" REPEATER="" ASKED=""
signal_ranks() { kill -USR2 "$STEP" 2>/dev/null; }
forward() {
  ASKED=1
  [ -n "$STEP" ] || return 0
  signal_ranks || true
  [ -n "$REPEATER" ] || { (while sleep 10 && signal_ranks; do :; done) & REPEATER=$!; }
}
stop_helper() { [ -z "$1" ] || { pkill -P "$1" || true; kill "$1" 2>/dev/null || true; }; }
await_step() { # the step's exit code, not that of a signal that interrupts the waiting
  local code=0
  [ -z "$ASKED" ] || forward
  while kill -0 "$STEP" 2>/dev/null; do wait "$STEP" || true; done
  wait "$STEP" || code=$?
  stop_helper "$REPEATER"
  return "$code"
}
trap forward USR2 USR1 TERM
LAB_NEXT_ATTEMPT=$(shopt -s nullglob && set -- "$RUN_DIR"/attempts/[0-9]* && echo $(($# + 1)))
export LAB_NEXT_ATTEMPT
rm -f "$RUN_DIR/requeue" # the ranks write it when they have saved and want to go on

NODES=1 MAX_REQUEUES=50
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
srun --export=ALL --kill-on-bad-exit=1 --nodes="$NODES" --ntasks-per-node="$TASKS_PER_NODE" \
  --cpus-per-task="$CPUS_PER_TASK" bash "$SCRIPT" rank &
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
