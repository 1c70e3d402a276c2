# ---- this machine, without a scheduler
if [ -n "${RUNS[1]:-}" ] && [ -z "${CUDA_VISIBLE_DEVICES:-}" ]; then
  # the runs of an array wait for each other; those with GPUs have waited for free ones
  exec 9>"$SCRIPT.lock"
  flock 9 &
  WAITER=$!
  while kill -0 "$WAITER" 2>/dev/null; do # a signal ends the waiting at once
    wait "$WAITER" || true
    [ ! -e "$RUN_DIR/cancelled" ] || kill "$WAITER" 2>/dev/null || true
  done
  LAB_JOB_STARTED=$(date +%s) # waiting is no work
fi
if [ -e "$RUN_DIR/cancelled" ]; then
  echo "this run was cancelled; resume it with: lab resume $(basename "$RUN_DIR")" >&2
  exit 130
fi
exec >>"$RUN_DIR/job.log" 2>&1
RUNNING_JOBS=$(cd /proc && echo [0-9]*) # a job is known by its process
HOSTS="$(hostname -s), GPUs ${CUDA_VISIBLE_DEVICES:-none}"

if [ "$TASKS_PER_NODE" -gt 1 ]; then
  signal_ranks() { signal_children USR2 "$STEP"; } # torchrun itself would end at once
  COMMAND=("${PYTHON[@]}" -m torch.distributed.run --standalone --nproc-per-node="$TASKS_PER_NODE" "${PROGRAM[@]}")
fi
# A job script that is killed must not leave processes that hold its GPUs.
if command -v setpriv >/dev/null; then COMMAND=(setpriv --pdeathsig TERM "${COMMAND[@]}"); fi
launch() { rank; }
watch_time() { # the time limit, which nobody else enforces
  @@{idle_guard}
  sleep @@{warn_after_s} && kill -USR2 $$ && sleep @@{lead_s} && {
    signal_children KILL "$STEP"
    kill -KILL "$STEP"
  }
}
