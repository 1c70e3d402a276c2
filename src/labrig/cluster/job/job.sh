#!/bin/bash
@@{directives}
# @@{title}
# @@{site}
# To resume the same run by hand: @@{by_hand}
# Filled in by `lab submit`; the script is @@{origin}: lab docs cluster

# ---- what runs: the code as it was at submit, whatever the project looks like now
RUNS=(@@{runs})
LAB_INDEX=${LAB_INDEX:-@@{index}}
RUN_DIR=${RUNS[LAB_INDEX]}
PROJECT=@@{project}
CODE=@@{code}
SCRIPT=@@{script}
NODES=@@{nodes}
TASKS_PER_NODE=@@{tasks_per_node}
CPUS_PER_TASK=@@{cpus_per_task}
MAX_REQUEUES=@@{max_requeues}
JOB=${LAB_JOB:-@@{job_id}}
if [ -z "$JOB" ]; then
  echo "this script runs inside a job only; type: @@{by_hand}" >&2
  exit 2
fi
NODE_DIR="@@{node_local}/lab-$JOB-$(id -u)-$(hostname -s)" # this node's copy of the code, removed at the end
PYTHON=(@@{python})
PROGRAM=(@@{command}) # of each process
COMMAND=("${PYTHON[@]}" "${PROGRAM[@]}")

# ---- the environment; processes that the launcher starts have it already
if [ -z "${LAB_ENVIRONMENT_READY:-}" ]; then
  export LAB_ENVIRONMENT_READY=1
@@{environment}
fi
set -euo pipefail
trap 'echo "$SCRIPT: line $LINENO ended with code $?" >&2' ERR
LAB_JOB_STARTED=${LAB_JOB_STARTED:-$(date +%s)}
export LAB_JOB=$JOB LAB_JOB_STARTED
export LAB_INDEX
export LAB_RUN_DIR=$RUN_DIR
export LAB_PROJECT=$PROJECT
export LAB_FROZEN=$NODE_DIR/code
export LAB_SNAPSHOT_COMMIT=@@{commit}
export PYTHONPATH=$LAB_FROZEN/@@{prefix}src:$LAB_FROZEN/labrig-frozen PYTHONSAFEPATH=1 PYTHONNOUSERSITE=1
export PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1
export OMP_NUM_THREADS=$CPUS_PER_TASK MKL_NUM_THREADS=$CPUS_PER_TASK

# ---- what happens on a node; the script calls itself for them
prepare() { # once per node: removes what killed jobs left, then unpacks the frozen code
  local old old_job
  for old in "@@{node_local}"/lab-*-"$(id -u)-$(hostname -s)"; do
    old_job=$(basename "$old" | cut -d- -f2)
    case " ${RUNNING_JOBS:-} " in
      "  ") ;; # nobody knows which jobs run
      *" $old_job "*) ;;
      *) rm -rf "$old" ;;
    esac
  done
  rm -rf "$NODE_DIR"
  unpack "$CODE" "$LAB_FROZEN" -m@@{unpack}
  for shared in data runs; do # relative paths to what is large and not frozen stay valid
    [ -e "$LAB_FROZEN/@@{prefix}$shared" ] || ln -s "$PROJECT/$shared" "$LAB_FROZEN/@@{prefix}$shared"
  done
}
unpack() { # unpack ARCHIVE DIRECTORY OPTION...; one line where the disk is full, not one of tar for each file
  local said
  said=$(mkdir -p "$2" 2>&1 && tar -xf "$1" -C "$2" "${@:3}" 2>&1) && return
  echo "${SLURMD_NODENAME:-$(hostname -s)} cannot unpack $1 into $2 ($(df -hP "@@{node_local}" | awk 'END {print $4}') free):" \
    "${said%%$'\n'*}. Another disk: site.node_local" >&2
  exit 1
}
rank() { # one process per task; it ignores the signals until Python listens, so they are sent repeatedly
  trap '' USR1 USR2 TERM
  cd "$LAB_FROZEN/@@{prefix}"@@{of_rank}
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
@@{guard}
@@{chain}
LAB_NEXT_ATTEMPT=$(shopt -s nullglob && set -- "$RUN_DIR"/attempts/[0-9]* && echo $(($# + 1)))
export LAB_NEXT_ATTEMPT
rm -f "$RUN_DIR/requeue" # the ranks write it when they have saved and want to be started again
rm -f "$RUN_DIR/job.code" "$RUN_DIR/job.end" "$RUN_DIR/job.over" # how the job before this one ended

@@{scheduler}

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
@@{end_of_chain}
echo "ended with code $code, $(date '+%F %T')"
exit "$code"
