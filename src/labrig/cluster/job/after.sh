# ---- after other runs: the scheduler has waited for their jobs; whether they finished is in their records
for BEFORE in @@{before}; do
  [ ! -e "$RUN_DIR/attempts/1/start.json" ] || break # it has begun before
  if ! grep -qs '^ "status": "finished"' "$BEFORE/summary.json"; then
    WORDS="never started: run $(basename "$BEFORE"), which it comes after, has not finished"
    echo "$WORDS" | tee "$RUN_DIR/cancelled"
    exit 4
  fi
done
