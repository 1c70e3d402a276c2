#!/bin/bash
@@{directives}
# @@{title}
# Again by hand, continuing the same run: qsub @@{script}
if [ -z "${JOB_ID:-}" ]; then echo "this script runs inside a Grid Engine job; type: qsub $0" >&2 && exit 2; fi

@@{common}
HOST_FILE=${PE_HOSTFILE:-$RUN_DIR/hosts} # unset in jobs on a part of a node
[ -n "${PE_HOSTFILE:-}" ] || hostname >"$HOST_FILE"
@@{mpi}
echo "job $JOB, start $((${RESTARTED:-0} + 1)), on ${HOSTS[*]}, $(date '+%F %T'): $RUN_DIR"
(launch 1 prepare)

# ---- the ranks: one process per GPU; USR1 comes before the time limit, at s_rt
launch "$TASKS_PER_NODE" rank &
STEP=$!
code=0
await_step || code=$?

@@{continue}
