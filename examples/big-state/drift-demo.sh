#!/usr/bin/env bash
# What drifted? A query, once a refresh has found it.
#
#   ./drift-demo.sh                 makes null_resource.summary drift, asks, and puts it right again
#   KEEP_DRIFT=1 ./drift-demo.sh    leaves the drift, for you to look at
#
# Runs from any directory. Needs kl, a kld, and one terraform apply of this example.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/demo-lib.sh"

address=null_resource.summary
value="somebody changed this"
quote="'"
version=

show_drift() {
  run "$KL" query "SELECT address, previous_attributes -> 'triggers' ->> 'size' AS was,
  current_attributes -> 'triggers' ->> 'size' AS is_now, detected_at_serial AS serial
FROM current_resource_drift WHERE state_name = '${name//$quote/$quote$quote}'"
}

clean_up() {
  if [ -n "$version" ]; then
    say "" "Interrupted: $address goes back to what it was."
    "$KL" rollback resource --address "$address" --to "$version" --apply --yes >/dev/null 2>&1 ||
      say "That failed. Do it with: kl rollback resource --address $address --to $version --apply"
  fi
}

begin "$address"
[ "$(ask "SELECT count(*) FROM current_resource_drift WHERE state_name = (\$1)[1] AND address = '$address'" --arg "$name")" = 0 ] ||
  fail "$address has drifted already, as after KEEP_DRIFT=1." "Put it right first: cd $here && terraform apply, with the -var=size it has"

step "State $name: what has drifted?"
show_drift

step "Somebody changes $address behind Terraform's back"
say "A null_resource is nowhere but in its state, so nobody can change it elsewhere, and no refresh would find" \
  "anything. So this demo writes what a refresh would have written: the state with another trigger in" \
  "$address, as a version of source refresh. With resources that really are somewhere," \
  "kl refresh does that by itself."
"$KL" export -o "$work/before.tfstate" 2>"$work/exported"
version=$(sed -n 's/^Wrote version \([0-9]*\) .*/\1/p' "$work/exported")
# Terraform's own layout: "serial" two spaces deep, the block's name six, a trigger fourteen.
awk -v value="$value" '
  /^  "serial": [0-9]+,$/ && !counted { counted = 1; sub(/[0-9]+/, substr($2, 1, length($2) - 1) + 1) }
  /^      "type": / { type = $2 }
  /^      "name": / { inside = (type == "\"null_resource\"," && $2 == "\"summary\",") }
  inside && /^ +"size": "/ { sub(/"size": "[^"]*"/, "\"size\": \"" value "\""); changed = 1; inside = 0 }
  { print }
  END { exit !changed }
' "$work/before.tfstate" >"$work/after.tfstate" || fail "found no trigger named size in $address to change."
run "$KL" import --name "$name" --source refresh "$work/after.tfstate" 2>&1 | sed "s#$work/##"

step "What has drifted? Ask the table; no state file, no lock, no provider"
show_drift
say ""
run "$KL" drift "$name"
[ "$(ask "SELECT address FROM current_resource_drift WHERE state_name = (\$1)[1] AND address = '$address'" --arg "$name")" = "$address" ] ||
  fail "current_resource_drift does not name $address"

if [ -n "${KEEP_DRIFT:-}" ] && [ "${KEEP_DRIFT:-}" != 0 ]; then
  say "" "The drift stays, as KEEP_DRIFT says. To put it right: kl rollback resource --address $address --to $version --apply" \
    "or, as after real drift, terraform apply."
  version=
  exit 0
fi

step "Put it right"
run "$KL" rollback resource --address "$address" --to "$version" --apply --yes
version=

step "And now?"
show_drift
[ "$(ask "SELECT count(*) FROM current_resource_drift WHERE state_name = (\$1)[1] AND address = '$address'" --arg "$name")" = 0 ] ||
  fail "current_resource_drift still names $address"
say "" "Nothing: $address is what it was."
