#!/bin/sh
# Runs one host: joins its control groups, then nspawn, again whenever the guest reboots.
#   boot.sh STATE_DIRECTORY CONTROL_GROUP... -- NSPAWN_COMMAND...
# Leaves nspawn's process id in STATE_DIRECTORY/pid, and its exit status in STATE_DIRECTORY/ended.
state=$1
shift
rm -f "$state/ended"
while [ "$1" != -- ]; do
    echo 0 > "$1/cgroup.procs" || { echo 120 > "$state/ended"; exit 120; }
    shift
done
shift
while :; do
    "$@" &
    echo $! > "$state/pid"
    wait $!
    status=$?
    # With --keep-unit nspawn leaves with 133 when its guest reboots, and expects to be started again.
    if [ $status -ne 133 ]; then
        echo $status > "$state/ended"
        exit $status
    fi
done
