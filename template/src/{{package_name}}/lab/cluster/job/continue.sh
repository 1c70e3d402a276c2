# ---- the end, or once more
if [ -e "$RUN_DIR/requeue" ] && [ ! -e "$RUN_DIR/cancelled" ]; then
  COUNT=$(($(cat "$RUN_DIR/requeues" 2>/dev/null || echo 0) + 1))
  if [ "$COUNT" -le "$MAX_REQUEUES" ]; then
    echo "$COUNT" >"$RUN_DIR/requeues"
    echo "saved; going on after requeue $COUNT, $(date '+%F %T')"
    @@{again}
  fi
  echo "requeued $MAX_REQUEUES times; stopping"
fi
echo "ended with code $code, $(date '+%F %T')"
exit "$code"
