#!/usr/bin/env bash
# doctor.sh FENPAY -- one trouble does not hide the others: without a database the keys and the disk are looked at all the same; `migrate`
# makes what is missing, folder included, for the owner only.
set -uo pipefail
fenpay=$1 bad=0
export LC_ALL=C
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
wants() { # CODE PATTERN...
  local code=$1 pattern
  shift
  "$fenpay" doctor --offline >out 2>&1
  [ $? = "$code" ] || { echo "exit code is not $code"; bad=1; }
  for pattern in "$@"; do
    grep -Eq "$pattern" out || { echo "lacks: $pattern"; bad=1; }
  done
  [ "$bad" = 0 ] || cat out
}

"$fenpay" doctor --offline --data keys >/dev/null 2>&1
cat >fenpay.yaml <<END
environment: test
master_key: file:keys/master.key
notify: { public_url: 'https://pay.example.com/notify' }
accounts:
  - name: wx-main
    environment: test
    wechat: { mchid: '1900000001', appid: wxdev0000000000001, merchant_key: 'file:keys/merchant.key.pem',
              merchant_cert: 'file:keys/merchant.cert.pem', apiv3_key: 'file:keys/apiv3.key', platform_certs: [ 'file:keys/platform.cert.pem' ] }
END
wants 1 '^ok .*1 account$' '^BAD +database +run fenpay migrate: there is no data/fenpay.db yet$' '^ok +keys .*merchant certificate' '^(ok|warn|BAD) +disk '
"$fenpay" migrate >/dev/null || bad=1
[ "$(stat -c %a data)" = 700 ] || { echo "the folder is open"; bad=1; }
wants 0 '^ok +database' '^ok +incidents +0 open$' '^ok +rules +0 rows looked at, every rule holds$'
sed -i "s|'1900000001'|x|" fenpay.yaml
wants 1 '^BAD +keys +fenpay.yaml:7: accounts\[0\].wechat.mchid: must be 1 to 32 digits$' '^ok +database' '^(ok|warn|BAD) +disk '
echo 'nonsense: 1' >>fenpay.yaml
wants 1 '^BAD +configuration +fenpay.yaml:' '^ok +clock'
exit $bad
