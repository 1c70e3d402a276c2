#!/bin/bash
@@{directives}
# @@{title}
# Again by hand, continuing the same run: qsub @@{script}
if [ -z "${PBS_JOBID:-}" ]; then echo "this script runs inside a PBS job; type: qsub $0" >&2 && exit 2; fi

@@{common}
HOST_FILE=$PBS_NODEFILE
@@{mpi}
echo "job $PBS_JOBID on ${HOSTS[*]}, $(date '+%F %T'): $RUN_DIR"
(launch 1 prepare)

# ---- the ranks: one process per GPU. PBS does not warn before the time limit; a clock here does
launch "$TASKS_PER_NODE" rank &
STEP=$!
(sleep @@{warn_after_s} && kill -USR2 $$) &
CLOCK=$!
code=0
await_step || code=$?
stop_helper "$CLOCK"

@@{continue}
