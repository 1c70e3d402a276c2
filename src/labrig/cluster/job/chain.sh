# ---- a chain: this job is one chunk of the run; the next one waits for its end, then resumes the run
CHUNK=${LAB_CHUNK:-1}
is_over() { # finished, failed or cancelled, not only stopped by the time limit
  [ -e "$RUN_DIR/cancelled" ] || { [ -e "$RUN_DIR/summary.json" ] && [ ! -e "$RUN_DIR/requeue" ]; }
}
if [ "$CHUNK" -gt 1 ] && { is_over || [ ! -e "$RUN_DIR/attempts/1/start.json" ]; }; then
  echo "chunk $CHUNK of @@{chunks}: the run is over, nothing is left to do"
  exit 0
fi
if [ "$CHUNK" -gt 1 ] || [ ! -e "$RUN_DIR/chunk_jobs" ]; then # not one that was sent by hand
  echo "$JOB" >>"$RUN_DIR/chunk_jobs"
fi
[ "$CHUNK" = @@{chunks} ] || RESUMED_BY="chunk $((CHUNK + 1)) of @@{chunks} resumes it"
cancel_later_chunks() {
  local id
  is_over || return 0
  for id in $(tail -n "+$((CHUNK + 1))" "$RUN_DIR/chain" 2>/dev/null); do
    @@{cancel} >/dev/null 2>&1 || true # one that starts all the same ends at once
  done
}
