#!/usr/bin/env bash
# explain.sh FENPAY -- a payment is found by every number that names it, a stored callback is verified from its bytes, and what is missing is
# said: all beside a running `serve --dev`.
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
pay=$(call payments -d '{"merchant_order_no":"A-1","user_id":"u1","subject":"Tea","amount":990,"currency":"CNY","channel":"wechat","method":"native"}' |
  sed -n 's/.*"pay_no":"\([^"]*\)".*/\1/p')
curl -s "http://127.0.0.1:$((base + 3))/phone/pay/$pay" -d '' >/dev/null
until call "payments/$pay?wait_s=5" | grep -q '"status":"SUCCESS"'; do
  [ $((tries = ${tries:-0} + 1)) -lt 20 ] || { echo "never paid"; exit 1; }
done

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

wants 0 'payment PAYING -> SUCCESS' explain "$pay"
! grep -q ' $' out || { echo "blanks at a line's end"; bad=1; }
wants 0 "^order 'A-1' of dev is O" explain A-1 --caller dev
wants 1 "nothing is known under 'A-2'" explain A-2
wants 0 '"callback_no":"C' explain "$pay" --json
callback=$(sed -n 's/.*"callback_no":"\(C[^"]*\)".*/\1/p' out | head -1)
event=$(sed -n 's/.*"event_id":"\(E[^"]*\)".*/\1/p' out | head -1)
wants 0 "^callback $callback is about $pay" explain "$callback"
wants 0 "^event $event is about [PO]" explain "$event"
wants 0 '^verdict +verifies' verify "$callback"
wants 2 'no number of a callback' verify "$pay"
wants 2 'give the number of a stored callback' verify
printf 'Wechatpay-Serial: 1\n' >headers
printf '{}' >body
wants 1 'why +Wechatpay-[A-Za-z]+: the header is missing' verify --account wx-dev --headers headers --body body
! grep -q '^$' out && ! grep -Eq '^[a-z]+ *$' out || { echo "empty lines"; cat out; bad=1; }

# The same in Chinese: no line of the story, and no answer of the API, is left in English.
english='[a-z]{2,},? [a-z]{2,},? [a-z]{2,}|(^|[" ])(order|payment|callback|event|call|move|nothing|tries) '
wants 0 '支付单 PAYING -> SUCCESS（回调）' explain "$pay" --lang zh
! grep -E "$english" out || bad=1
wants 0 "^回调 $callback 涉及 $pay" explain "$callback" --lang zh
wants 1 '缺少请求头' verify --account wx-dev --headers headers --body body --lang zh
call "timeline/$pay" -H 'Accept-Language: zh-CN' | grep -o '"text":"[^"]*"' >out
grep -q '支付单 PAYING -> SUCCESS（回调）' out && ! grep -E "$english" out || { cat out; bad=1; }
# What is stored was stored in English, and is read in both.
curl -s "http://127.0.0.1:$((base + 3))/sandbox/v1/faults" -d '{"fault":"WRONG_AMOUNT_TAKEN","amount_delta":-1,"times":1}'
odd=$(call payments -d '{"merchant_order_no":"B-1","user_id":"u1","subject":"Tea","amount":990,"currency":"CNY","channel":"wechat","method":"native"}' |
  sed -n 's/.*"pay_no":"\([^"]*\)".*/\1/p')
curl -s "http://127.0.0.1:$((base + 3))/phone/pay/$odd" -d '' >/dev/null
until call "incidents?kind=AMOUNT_MISMATCH" -H 'Accept-Language: zh' | grep -q '"detail":"PAID，来自回调：9.89 CNY'; do
  [ $((looks = ${looks:-0} + 1)) -lt 200 ] || { echo "no incident in Chinese"; exit 1; }
done
wants 0 '异常单 AMOUNT_MISMATCH（未处理）：PAID，来自回调：9.89 CNY' explain "$odd" --lang zh
! grep -E "$english" out || bad=1
wants 0 'incident AMOUNT_MISMATCH, open: PAID stated by callback: 9.89 CNY' explain "$odd"

call "timeline/$pay" | grep -q '"text":"payment PAYING -> SUCCESS (callback)"' || { echo "the timeline is not English"; bad=1; }
exit $bad
