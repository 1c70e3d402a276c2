#!/bin/bash
#PJM -L node=2
#PJM --mpi proc=16
#PJM -g abc
#PJM -L rscgrp=short-a
#PJM -L elapse=02:00:00
#PJM -j
#PJM -N wide.20261120-190000-abcdef
#PJM -o /home/ann/myproj/runs/wide/20261120-190000-abcdef/job.log
# Run 20261120-190000-abcdef of wide
# Site wisteria_a: experimental (pjm was never run), not verified; a job of one minute does it: lab site verify site=wisteria_a
# To resume the same run by hand: pjsub /home/ann/myproj/runs/wide/20261120-190000-abcdef/job.sh
# Filled in by `lab submit`; the script is the library's pjm.sh; to edit it, copy it to jobs/: lab docs cluster

# ---- what runs: the code as it was at submit, whatever the project looks like now
RUNS=(/home/ann/myproj/runs/wide/20261120-190000-abcdef)
LAB_INDEX=${LAB_INDEX:-${PJM_BULKNUM:-0}}
RUN_DIR=${RUNS[LAB_INDEX]}
PROJECT=/home/ann/myproj
CODE=/home/ann/myproj/runs/.code/c0ffee.tar
SCRIPT=/home/ann/myproj/runs/wide/20261120-190000-abcdef/job.sh
NODES=2
TASKS_PER_NODE=8
CPUS_PER_TASK=9
MAX_REQUEUES=0
JOB=${LAB_JOB:-${PJM_JOBID:+${PJM_JOBID}_$LAB_INDEX}}
if [ -z "$JOB" ]; then
  echo "this script runs inside a job only; type: pjsub /home/ann/myproj/runs/wide/20261120-190000-abcdef/job.sh" >&2
  exit 2
fi
NODE_DIR="/dev/shm/lab-$JOB-$(id -u)-$(hostname -s)" # this node's copy of the code, removed at the end
PYTHON=(/home/ann/myproj/.venv/bin/python)
PROGRAM=(-m labrig rank) # of each process
COMMAND=("${PYTHON[@]}" "${PROGRAM[@]}")

# ---- the environment; processes that the launcher starts have it already
if [ -z "${LAB_ENVIRONMENT_READY:-}" ]; then
  export LAB_ENVIRONMENT_READY=1
  # shellcheck source=/dev/null
  command -v module >/dev/null || source /etc/profile.d/modules.sh # not a login shell
  module load gcc ompi
  export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 WANDB_MODE=offline UV_OFFLINE=1 PIP_NO_INDEX=1 # compute nodes have no internet
  export HOME=/home/ann/myproj/.home # the real one cannot be written in jobs
  mkdir -p "$HOME"
  export LAB_CACHES=/home/ann/myproj/.caches # the caches of all tools
fi
set -euo pipefail
trap 'echo "$SCRIPT: line $LINENO ended with code $?" >&2' ERR
LAB_JOB_STARTED=${LAB_JOB_STARTED:-$(date +%s)}
export LAB_JOB=$JOB LAB_JOB_STARTED
export LAB_INDEX
export LAB_RUN_DIR=$RUN_DIR
export LAB_PROJECT=$PROJECT
export LAB_FROZEN=$NODE_DIR/code
export LAB_SNAPSHOT_COMMIT=c0ffee
export PYTHONPATH=$LAB_FROZEN/src:$LAB_FROZEN/labrig-frozen PYTHONSAFEPATH=1 PYTHONNOUSERSITE=1
export PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1
export OMP_NUM_THREADS=$CPUS_PER_TASK MKL_NUM_THREADS=$CPUS_PER_TASK

# ---- what happens on a node; the script calls itself for them
prepare() { # once per node: removes what killed jobs left, then unpacks the frozen code
  local old old_job
  for old in "/dev/shm"/lab-*-"$(id -u)-$(hostname -s)"; do
    old_job=$(basename "$old" | cut -d- -f2)
    case " ${RUNNING_JOBS:-} " in
      "  ") ;; # nobody knows which jobs run
      *" $old_job "*) ;;
      *) rm -rf "$old" ;;
    esac
  done
  rm -rf "$NODE_DIR"
  unpack "$CODE" "$LAB_FROZEN" -m
  for shared in data runs; do # relative paths to what is large and not frozen stay valid
    [ -e "$LAB_FROZEN/$shared" ] || ln -s "$PROJECT/$shared" "$LAB_FROZEN/$shared"
  done
}
unpack() { # unpack ARCHIVE DIRECTORY OPTION...; one line where the disk is full, not one of tar for each file
  local said
  said=$(mkdir -p "$2" 2>&1 && tar -xf "$1" -C "$2" "${@:3}" 2>&1) && return
  echo "${SLURMD_NODENAME:-$(hostname -s)} cannot unpack $1 into $2 ($(df -hP "/dev/shm" | awk 'END {print $4}') free):" \
    "${said%%$'\n'*}. Another disk: site.node_local" >&2
  exit 1
}
rank() { # one process per task; it ignores the signals until Python listens, so they are sent repeatedly
  trap '' USR1 USR2 TERM
  cd "$LAB_FROZEN/"
  exec "${COMMAND[@]}"
}
clean() { rm -rf "$NODE_DIR"; }
python() { # any Python program of the installed library, next to the ranks: lab top
  cd "$PROJECT"
  unset PYTHONPATH LAB_FROZEN LAB_PROJECT
  exec "${PYTHON[@]}" "$@"
}
case ${1:-} in
  prepare) prepare; exit ;;
  rank) rank ;;
  clean) clean; exit ;;
  python) python "${@:2}" ;;
esac

# ---- signals: this shell passes the time limit and preemption on as USR2; the ranks save and end by themselves
STEP=""
REPEATER=""
MUST_STOP=""
signal_ranks() { kill -USR2 "$STEP" 2>/dev/null; }
# shellcheck disable=SC2317,SC2329 # Slurm has another one, below
ask_stacks() { kill -URG "$STEP" 2>/dev/null && signal_children URG "$STEP"; } # into attempts/N/stack-<rank>.txt
signal_ranks_repeatedly() {
  local n=0
  while sleep 10 && signal_ranks; do
    n=$((n + 1))
    [ "$n" != 2 ] || ask_stacks || true # they may hang, and are killed soon
  done
}
forward() {
  MUST_STOP=1
  [ -n "$STEP" ] || return 0
  signal_ranks || true
  if [ -z "$REPEATER" ]; then
    signal_ranks_repeatedly &
    REPEATER=$!
  fi
}
signal_children() { # signal_children NAME PROCESS; small machines have no pkill
  # shellcheck disable=SC2046 # each word is a process
  kill "-$1" $(cat "/proc/$2/task/"*/children 2>/dev/null) 2>/dev/null || true
}
stop_helper() {
  [ -n "$1" ] || return 0
  signal_children TERM "$1"
  kill "$1" 2>/dev/null || true
}
await_step() { # returns the exit code of the step, not that of a signal that interrupts the waiting
  local code=0
  [ -z "$MUST_STOP" ] || forward
  while kill -0 "$STEP" 2>/dev/null; do wait "$STEP" || true; done
  wait "$STEP" || code=$?
  stop_helper "$REPEATER"
  return "$code"
}
trap forward USR2 USR1 TERM
RESUMED_BY="resume with: lab resume $(basename "$RUN_DIR")"

LAB_NEXT_ATTEMPT=$(shopt -s nullglob && set -- "$RUN_DIR"/attempts/[0-9]* && echo $(($# + 1)))
export LAB_NEXT_ATTEMPT
rm -f "$RUN_DIR/requeue" # the ranks write it when they have saved and want to be started again
rm -f "$RUN_DIR/job.code" "$RUN_DIR/job.end" "$RUN_DIR/job.over" # how the job before this one ended

# ---- MPI starts the processes, torch connects them
rm -f "$RUN_DIR/cancelled" # it was sent again, by hand
echo "${JOB%%_*}" >"$RUN_DIR/job.id" # for a sender that got no answer
HOST_FILE=${PJM_O_NODEINF:-$RUN_DIR/hosts} # unset in jobs on a part of a node
[ -n "${PJM_O_NODEINF:-}" ] || hostname >"$HOST_FILE"
HOSTS=$(awk '!seen[$1]++ {print $1}' "$HOST_FILE" | tr '\n' ' ')
MASTER_ADDR=${HOSTS%% *}
# below the ephemeral ports, different for jobs that share a node: for all tasks of an array, and for jobs and
# tasks whose numbers differ by less than 99
NUMBER=${JOB%%[!0-9]*}
NUMBER=${NUMBER:-$(printf %s "$JOB" | cksum | cut -d' ' -f1)} # of an id that begins with a letter
MASTER_PORT=$((20000 + (NUMBER * 7 + LAB_INDEX * 693) % 10000))
while (: <"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; do MASTER_PORT=$((MASTER_PORT + 1)); done # in use
export MASTER_ADDR MASTER_PORT

launch() { # launch PROCESSES_PER_NODE prepare|rank|clean; replaces the shell it runs in
  if [ "$NODES" = 1 ] && [ "$1" = 1 ]; then exec bash "$SCRIPT" "$2"; fi
  exec mpiexec -n "$((NODES * $1))" -npernode "$1" -x LAB_JOB -x LAB_INDEX -x LAB_NEXT_ATTEMPT \
    -x MASTER_ADDR -x MASTER_PORT -machinefile "$PJM_O_NODEINF" bash "$SCRIPT" "$2"
}
watch_time() { # the scheduler does not warn before the time limit
  "${PYTHON[@]}" -m labrig.cluster.job.gpu_guard $$ 30 & # stops a job whose GPUs do nothing
  sleep 7080 && kill -USR2 $$
}
start_again() {
  local count
  count=$(($(cat "$RUN_DIR/requeues" 2>/dev/null || echo 0) + 1))
  if [ "$count" -gt "$MAX_REQUEUES" ]; then
    echo "requeued $MAX_REQUEUES times; stopping"
    return 0
  fi
  echo "$count" >"$RUN_DIR/requeues"
  echo "saved; resuming after requeue $count, $(date '+%F %T')"
  :
}

# ---- the job: prepare every node, one process per GPU, clean up however it ends
on_every_node() { if [ "$NODES" = 1 ]; then "$1"; else (launch 1 "$1"); fi; }
echo "job $JOB, attempt $LAB_NEXT_ATTEMPT, on $HOSTS, $(date '+%F %T'): $RUN_DIR"
SECONDS=0 # bash counts them up
trap 'echo "$? $SECONDS" >"$RUN_DIR/job.code" || true; on_every_node clean 2>/dev/null || true; clean' EXIT
on_every_node prepare
launch "$TASKS_PER_NODE" rank &
STEP=$!
watch_time 2>/dev/null &
WATCHER=$!
code=0
await_step || code=$?
stop_helper "$WATCHER"
if [ -e "$RUN_DIR/requeue" ] && [ ! -e "$RUN_DIR/cancelled" ]; then
  if [ "$MAX_REQUEUES" = 0 ]; then
    echo "stopped and saved; $RESUMED_BY"
  else
    start_again
  fi
fi
"${PYTHON[@]}" -m labrig.cluster.job.used 2>/dev/null || echo "what it used: lab runs show $(basename "$RUN_DIR")"

echo "ended with code $code, $(date '+%F %T')"
exit "$code"
