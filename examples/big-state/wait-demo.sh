#!/usr/bin/env bash
# Two engineers, one resource: the second waits, sees for whom, and goes on by itself.
#
#   ./wait-demo.sh blocker    in one terminal
#   ./wait-demo.sh waiter     in another one, while the first still runs
#   ./wait-demo.sh both       both of them in this terminal
#
# Runs from any directory. Needs kl, terraform, a kld, and one terraform apply of this example.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/demo-lib.sh"

address=time_sleep.slow_a

case ${1:-} in
  blocker | waiter | both) role=$1 ;;
  *) fail "say who you are: $0 blocker|waiter|both" ;;
esac
begin "$address"

case $role in
  blocker)
    step "Replacing $address in state $name; start ./wait-demo.sh waiter in another terminal now"
    replace run slow_a "$role"
    ;;
  waiter)
    step "Replacing $address in state $name; if somebody else does, this waits"
    replace run slow_a "$role"
    ;;
  both)
    step "The blocker replaces $address in state $name"
    replace_as blocker slow_a
    until_reserved "$address"
    step "The waiter wants to replace it too"
    replace_as waiter slow_a
    all_ended || fail "one of the two failed; see above."
    step "Who did what, in which order"
    run "$KL" query "SELECT committed_version AS version, holder, date_trunc('second', started_at) AS started,
  date_trunc('second', finished_at) AS finished
FROM run_overview WHERE state_name = (\$1)[1] AND status = 'committed'
ORDER BY committed_version DESC LIMIT 2" --arg "$name"
    say "" "The waiter went on by itself: it planned again on the version that the blocker had committed."
    ;;
esac
