# ---- rendezvous, and how processes are started: MPI starts them, torch connects them
mapfile -t HOSTS < <(awk '!seen[$1]++ {print $1}' "$HOST_FILE")
MASTER_ADDR=${HOSTS[0]}
MASTER_PORT=$((20000 + (${JOB%%[!0-9]*} * 7 + LAB_INDEX) % 10000))
export MASTER_ADDR MASTER_PORT
launch() { # launch PROCESSES_PER_NODE prepare|rank|clean; replaces the shell it runs in
  if [ "$NODES" = 1 ] && [ "$1" = 1 ]; then exec bash "$SCRIPT" "$2"; fi
  exec @@{mpi_command} -x LAB_JOB -x LAB_INDEX -x MASTER_ADDR -x MASTER_PORT \
    @@{launcher_options}bash "$SCRIPT" "$2"
}
trap '(launch 1 clean)' EXIT
