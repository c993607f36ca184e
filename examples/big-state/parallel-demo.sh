#!/usr/bin/env bash
# Two engineers, two resources of one state: both apply at once, in the time of one.
#
#   ./parallel-demo.sh slow_a    in one terminal
#   ./parallel-demo.sh slow_b    in another one
#   ./parallel-demo.sh both      both of them in this terminal
#
# Runs from any directory. Needs kl, terraform, a kld, and one terraform apply of this example.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/demo-lib.sh"

case ${1:-} in
  slow_a | slow_b | both) role=$1 ;;
  *) fail "say what to replace: $0 slow_a|slow_b|both" ;;
esac
begin time_sleep.slow_a time_sleep.slow_b

if [ "$role" != both ]; then
  step "Replacing time_sleep.$role in state $name"
  SECONDS=0
  replace run "$role" "$role"
  say "" "Done in $SECONDS s."
  exit 0
fi

step "Replacing time_sleep.slow_a and time_sleep.slow_b in state $name, both at once"
SECONDS=0
replace_as slow_a slow_a
replace_as slow_b slow_b
all_ended || fail "one of the two failed; see above."
took=$SECONDS

step "When each of them held its resource"
run "$KL" query "SELECT committed_version AS version, holder, date_trunc('second', started_at) AS started,
  date_trunc('second', finished_at) AS finished
FROM run_overview WHERE state_name = (\$1)[1] AND status = 'committed'
ORDER BY committed_version DESC LIMIT 2" --arg "$name"
say "" "Both in $took s. Each of the two sleeps takes 30 s: one after the other would be a minute and more."
