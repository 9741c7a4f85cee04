#!/usr/bin/env bash
# incidents.sh FENPAY -- what needs a person, from the command line: listed, shown, resolved, beside a running `serve --dev`.
set -uo pipefail
fenpay=$1 bad=0
export LC_ALL=C
dir=$(mktemp -d)
cd "$dir" || exit 1
trap 'kill $server 2>/dev/null; rm -rf "$dir"' EXIT

key=
for base in $((20000 + $$ % 10000)) $((30000 + $$ % 10000)) $((40000 + $$ % 10000)); do # somebody may have a port
  exec 3< <(exec "$fenpay" serve --dev --data d --port-base "$base" 2>log)
  server=$!
  while read -ru 3 line; do
    case $line in
      *'Bearer fp_'*) key=${line##*Bearer } ;;
      Try:) break 2 ;;
    esac
  done
done
[ -n "$key" ] || { cat log; exit 1; }
call() { curl -s "http://127.0.0.1:$base/v1/$1" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' "${@:2}"; }
wants() { # CODE PATTERN COMMAND...
  local code=$1 pattern=$2
  shift 2
  "$fenpay" "$@" --data d >out 2>&1
  local got=$?
  if [ $got != "$code" ] || ! grep -Eq -- "$pattern" out; then
    echo "$*: exit $got, wanted $code and: $pattern"
    cat out
    bad=1
  fi
}

nothing_open() {
  "$fenpay" incident list --data d >out 2>&1 && [ ! -s out ] || { echo "something is open"; cat out; bad=1; }
}

nothing_open
pay() { # NUMBER: paid with another amount than asked for
  curl -s "http://127.0.0.1:$((base + 3))/sandbox/v1/faults" -d '{"fault":"WRONG_AMOUNT_TAKEN","amount_delta":-913,"times":1}' >/dev/null
  no=$(call payments -d '{"merchant_order_no":"'"$1"'","user_id":"u1","subject":"Tea","amount":990,"currency":"CNY","channel":"wechat","method":"native"}' |
    sed -n 's/.*"pay_no":"\([^"]*\)".*/\1/p')
  curl -s "http://127.0.0.1:$((base + 3))/phone/pay/$no" -d '' >/dev/null
  until call "payments/$no" | grep -q '"quarantined":true'; do
    [ $((tries = ${tries:-0} + 1)) -lt 2000 ] || { echo "never held"; call "payments/$no"; exit 1; }
  done
}
pay A-1
first=$no
pay A-2
wants 0 '"kind":"AMOUNT_MISMATCH","state":"open","policy":"hold","subject":"P.*","amount":77,"count":1,' incident list --json
[ "$(wc -l <out)" = 2 ] || { echo "two are open"; cat out; bad=1; }
second=$(sed -n '1s/.*"incident_no":"\([^"]*\)".*/\1/p' out)
incident=$(sed -n '2s/.*"incident_no":"\([^"]*\)".*/\1/p' out)
wants 0 "^$incident .*AMOUNT_MISMATCH +hold +$first  0.77 CNY" incident list --kind AMOUNT_MISMATCH
wants 0 '^actions +accept,' incident show "$incident"
wants 0 "^incident $incident is about $first" explain "$incident"
wants 2 "no kind named 'MISMATCH'" incident list --kind MISMATCH
wants 0 '^warn +incidents +2 open$' doctor --offline
wants 2 'open, resolved or all' incident list --state closed
wants 2 'resolve ACTION NO' incident resolve
wants 2 "no action named 'forget'" incident resolve forget "$incident" --reason x
wants 2 '--reason says why' incident resolve accept "$incident"
wants 1 'No such incident' incident show I1
wants 1 'its money is held' incident resolve ignore "$incident" --reason x
wants 1 'for AMOUNT_MISMATCH: accept' incident resolve revive "$incident" --reason x
wants 1 'nothing is proposed' incident withdraw "$incident"
wants 0 '^who +operator:' incident resolve accept "$incident" "$second" --reason 'the shop takes it'
[ "$(grep -Ec '^resolution +accept' out)" = 2 ] || { cat out; bad=1; }
nothing_open
wants 0 ' accept ' incident list --state all
call "payments/$first" | grep -q '"status":"SUCCESS".*"paid_amount":77,.*"settled":"aside"' || { call "payments/$first"; bad=1; }
exit $bad
