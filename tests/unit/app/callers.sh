#!/usr/bin/env bash
# callers.sh FENPAY -- callers, their keys and webhooks from the command line: every act says what it did, every mistake what is wrong, JSON
# has numbers and arrays, and no secret is shown twice.
set -uo pipefail
fenpay=$1 bad=0
export LC_ALL=C
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
"$fenpay" doctor --offline --data keys >/dev/null 2>&1
cat >fenpay.yaml <<END
environment: test
master_key: file:keys/master.key
webhook: { private_addresses: true }
END
"$fenpay" migrate >/dev/null || bad=1

wants() { # CODE PATTERN COMMAND...
  local code=$1 pattern=$2
  shift 2
  "$fenpay" "$@" >out 2>&1
  local got=$?
  if [ $got != "$code" ] || ! grep -Eq -- "$pattern" out; then
    echo "$*: exit $got, wanted $code and: $pattern"
    cat out
    bad=1
  fi
}

wants 0 '^bearer +fp_' caller add shop
wants 1 'the name is taken' caller add shop
wants 0 '^bearer +fp_' caller key shop
secret=$(sed -n 's/^bearer *//p' out)
wants 1 'two keys of this kind' caller key shop
wants 0 '^rate +high' caller rate shop high
wants 2 'normal, high or unlimited' caller rate shop higher
wants 1 'no such caller' caller rate nobody high
wants 0 '"permissions":\["read","order","pay","refund"\],"rate":"high","state":"on","keys":2\}$' caller list --json
wants 0 '"kind":"bearer","state":"on","created":"20' caller keys shop --json
! grep -q "${secret#fp_*_}" out || { echo "a secret is shown again"; bad=1; }
key=$(sed -n '1s/.*"key_id":"\([^"]*\)".*/\1/p' out)
wants 0 '^state +revoked' caller revoke "$key"
wants 1 'revoke wants a key id' caller revoke shop
wants 1 'no such caller' caller keys nobody
wants 0 '^state +off' caller off shop
wants 0 '^state +on' caller on shop
wants 2 'keys NAME' caller nonsense shop

wants 0 '^secret +whsec_' webhook add http://127.0.0.1:9/x --caller shop --types payment.success,order.paid
first=$(cat out) id=$(sed -n 's/^webhook_id *//p' out)
wants 0 '"types":\["payment.success","order.paid"\],"state":"on"' webhook list --caller shop --json
wants 0 '^secret +whsec_' webhook rotate "$id" --caller shop
[ "$(cat out)" != "$first" ] || { echo "the secret is the old one"; bad=1; }
wants 0 '^state +off' webhook off "$id" --caller shop
wants 1 'no such webhook' webhook off 12345 --caller shop
wants 1 'no such webhook' webhook rotate x --caller shop
exit $bad
