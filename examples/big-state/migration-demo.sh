#!/usr/bin/env bash
# From a local state into Kilolock and back, and what a snapshot does not carry: the history.
#
#   ./migration-demo.sh
#   KL_STATE_NAME=big-state KL_REIMPORT_STATE_NAME=big-state-reimported MIGRATION_SIZE=10 ./migration-demo.sh
#
# Runs from any directory. Needs terraform, and a kld where backend.tf says; kl for what comes after the round trip.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/demo-lib.sh"

size=${MIGRATION_SIZE:-10}
interrupted=yes
reached=

# Runs terraform in a folder of ours; shows what it says in the end, or all of it when it fails.
terraform_in() {
  local folder=$1 status=0
  shift
  printf '$ terraform %s\n' "$*" | sed "s#$work/##g"
  (cd "$folder" && exec "$TERRAFORM" "$@" -no-color -input=false) >"$work/log" 2>&1 || status=$?
  if [ "$status" != 0 ]; then
    cat "$work/log" >&2
    return "$status"
  fi
  sed -nE -e 's/^(Successfully (configured|unset) the backend "[a-z]+").*/  \1/p' \
    -e 's/^(Apply complete.*|.* has been successfully initialized).*/  \1/p' "$work/log"
}

init_in() {
  local folder=$1
  shift
  if [ -d "$providers" ]; then
    terraform_in "$folder" init -plugin-dir="$providers" "$@"
  else
    terraform_in "$folder" init "$@"
  fi
}

count_in() {
  # Where there is no state yet, terraform state list fails.
  (cd "$1" && "$TERRAFORM" state list 2>/dev/null || true) | wc -l | tr -d ' '
}

# A folder that knows a state of that kld, and nothing else: backend.tf with another last part of the addresses.
connect() {
  mkdir -p "$work/$1"
  sed -E "s#^([[:space:]]*([a-z]+_)?address[[:space:]]*=[[:space:]]*\"[^\"]*/)[^/\"]*\"#\\1$1\"#" "$here/backend.tf" >"$work/$1/backend.tf"
  (cd "$work/$1" && "$TERRAFORM" init -no-color -input=false) >"$work/log" 2>&1 &&
    (cd "$work/$1" && "$TERRAFORM" state pull) >"$work/pulled" 2>>"$work/log" || {
    cat "$work/log" >&2
    fail "no kld answers where $here/backend.tf says." "Start one: make -C $root run"
  }
}

# A name that the user gave must be free; one of ours makes way.
free_name() {
  local wanted=$1 given=$2 held
  case $wanted in
    '' | *[!A-Za-z0-9._-]*) fail "\"$wanted\" is no state name that this demo takes: use letters, digits, . _ and -" ;;
  esac
  connect "$wanted"
  held=$(count_in "$work/$wanted")
  if [ "$held" != 0 ]; then
    [ -z "$given" ] || fail "the state $wanted holds $held resources already; the demo would overwrite them." \
      "Choose another: $given=some-other-name $0"
    say "The state $wanted holds $held resources already, so this demo takes $wanted-$stamp." >&2
    wanted=$wanted-$stamp
    connect "$wanted"
  fi
  free=$wanted
}

versions_of() {
  (cd "$work/$1" && "$KL" query "SELECT count(*) FROM state_versions WHERE state_id = (SELECT id FROM states WHERE name = '$1')" --format csv) | tail -n +2
}

clean_up() {
  if [ -n "$interrupted" ] && [ -n "$reached" ]; then
    say "" "Stopped. The work directory is removed; the state $reached stays in Kilolock as far as it came." >&2
  fi
}

need_terraform
case $size in
  '' | *[!0-9]* | 0*) fail "MIGRATION_SIZE=$size is no whole number of at least 1" ;;
esac
[ -f "$here/backend.tf" ] || fail "there is no backend.tf in $here." "It says which kld to use: git checkout backend.tf"
if ! find_kl; then
  say "$demo: kl is neither $root/bin/kl nor on PATH, so the histories at the end are left out." \
    "  Make it with: make -C $root build" >&2
fi
providers=$here/${TF_DATA_DIR:-.terraform}/providers
unset TF_DATA_DIR TF_WORKSPACE
export TF_IN_AUTOMATION=1
make_work
stamp=$(date +%Y%m%d-%H%M%S)
backend_name=$(sed -nE 's#^[[:space:]]*address[[:space:]]*=[[:space:]]*"[^"]*/([^/"]*)".*#\1#p' "$here/backend.tf")
free_name "${KL_STATE_NAME:-$backend_name}" "${KL_STATE_NAME:+KL_STATE_NAME}"
name=$free
free_name "${KL_REIMPORT_STATE_NAME:-$name-reimported}" "${KL_REIMPORT_STATE_NAME:+KL_REIMPORT_STATE_NAME}"
reimported=$free

step "1. A plain local state"
say "The configuration of big-state without backend.tf, and without slow_a.tf and slow_b.tf, which take half a minute each."
fixture=$work/fixture
mkdir "$fixture"
cp "$here/main.tf" "$fixture/"
cp -R "$here/modules" "$fixture/"
[ ! -f "$here/.terraform.lock.hcl" ] || cp "$here/.terraform.lock.hcl" "$fixture/"
init_in "$fixture"
terraform_in "$fixture" apply -auto-approve -var="size=$size"
say "=> local big-state fixture created successfully: $(count_in "$fixture") resources in terraform.tfstate"

step "2. Into Kilolock"
cp "$work/$name/backend.tf" "$fixture/backend.tf"
reached=$name
init_in "$fixture" -migrate-state -force-copy
say "=> state migrated to KiloLock using the backend block from backend.tf, as $name: $(count_in "$fixture") resources"

step "3. Work goes on while Kilolock holds the state"
terraform_in "$fixture" apply -auto-approve -var="size=$((size + 2))"
terraform_in "$fixture" apply -auto-approve -var="size=$((size + 3))"
say "=> big-state resources changed while KiloLock was active: $(count_in "$fixture") resources"

step "4. Back to a plain local state"
rm "$fixture/backend.tf"
init_in "$fixture" -migrate-state -force-copy
terraform_in "$fixture" apply -auto-approve -var="size=$((size + 5))"
say "=> state migrated back to local and changed again with plain Terraform: $(count_in "$fixture") resources"

if [ -z "$KL" ]; then
  interrupted=
  say "" "Without kl the demo ends here."
  exit 0
fi

step "5. The last local snapshot, imported under another name"
(cd "$work/$reimported" && run "$KL" import --name "$reimported" "$fixture/terraform.tfstate") 2>&1 | sed "s#$work/##"

step "What each of them knows of its past"
(cd "$work/$name" && run "$KL" history "$name")
say ""
(cd "$work/$reimported" && run "$KL" history "$reimported")
[ "$(versions_of "$name")" -gt 1 ] && [ "$(versions_of "$reimported")" = 1 ] ||
  fail "the histories are not what they should be: $(versions_of "$name") and $(versions_of "$reimported") versions"
interrupted=
say "" "=> the original KiloLock-backed $name has $(versions_of "$name") versions" \
  "=> the re-imported state starts with only one imported version" "" \
  "A migration carries the current snapshot. The whole history moves with an archive:" \
  "  kl export --archive $name.klarchive $name" \
  "  kl import --archive $name.klarchive --name another-name" "" \
  "Both states stay in Kilolock; nothing else is left behind."
