#!/usr/bin/env bash
# settings.sh FENPAY -- what is wrong with a configuration is told with its line and its key, also when only keys, certificates and accounts
# together know it; a file with a byte order mark is read; secrets that others may read are named.
set -uo pipefail
fenpay=$1 bad=0
export LC_ALL=C
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
"$fenpay" doctor --offline --data keys >/dev/null 2>&1   # makes the keys
"$fenpay" doctor --offline --data other >/dev/null 2>&1

cat >good.yaml <<END
environment: test
master_key: file:keys/master.key
notify:
  public_url: https://pay.example.com/notify
accounts:
  - name: wx-main
    environment: test
    wechat:
      mchid: '1900000001'
      appid: wxdev0000000000001
      merchant_key: file:keys/merchant.key.pem
      merchant_cert: file:keys/merchant.cert.pem
      apiv3_key: file:keys/apiv3.key
      platform_certs: [ 'file:keys/platform.cert.pem' ]
END

# wants TEXT SED-SCRIPT: the good file, changed, is refused with exactly that.
wants() {
  sed "$2" good.yaml >fenpay.yaml
  local said
  said=$("$fenpay" config 2>&1) && { echo "accepted: $2"; bad=1; }
  if [ "$said" != "fenpay config: $1" ]; then
    echo "wanted: $1"
    echo "   got: ${said#fenpay config: }"
    bad=1
  fi
}

cp good.yaml fenpay.yaml
"$fenpay" config >out || { cat out; bad=1; }
grep -q 'fine, 1 account$' out || bad=1

wants "fenpay.yaml:12: accounts[0].wechat.merchant_cert: does not belong to merchant_key" 's|file:keys/merchant.cert|file:other/merchant.cert|'
wants "fenpay.yaml:11: accounts[0].wechat.merchant_key: not a usable RSA private key" 's|file:keys/merchant.key.pem|file:keys/apiv3.key|'
wants "fenpay.yaml:12: accounts[0].wechat.merchant_cert: not a certificate" 's|file:keys/merchant.cert.pem|file:keys/apiv3.key|'
wants "fenpay.yaml:13: accounts[0].wechat.apiv3_key: must have exactly 32 characters, it has 5" 's|file:keys/apiv3.key|short|'
wants "fenpay.yaml:5: accounts[0].notify_url: give notify.public_url or notify_url" '/public_url/d; s/^notify:$/name: x/'
wants "fenpay.yaml:4: notify.public_url: the callback address made of it must be https" 's|https://pay|http://pay|'
wants "fenpay.yaml:9: accounts[0].wechat.public_key_id: is missing: public_key needs it" 's|platform_certs: .*|public_key: x|'
wants "fenpay.yaml:14: accounts[0].wechat.public_key_id: must begin with PUB_KEY_ID_, as the merchant platform shows it" 's|platform_certs: .*|public_key_id: 5157F09E\n      public_key: x|'
wants "fenpay.yaml:6: accounts[0].name: must have 1 to 32 characters of a-z, 0-9 and -" 's|wx-main|WX|'
wants "fenpay.yaml:7: accounts[0].environment: account wx-main is of another environment than the process: test money must never meet the books" 's|    environment: test|    environment: dev|'
wants "fenpay.yaml:9: accounts[0].wechat.mchid: must be 1 to 32 digits" "s|'1900000001'|x|"
wants "fenpay.yaml:2: master_key: 64 hex digits are wanted (make one with fenpay secret new)" 's|file:keys/master.key|abcd|'
wants "fenpay.yaml:6: api.listen: 0.0.0.0:80 is not loopback: give tls_cert and tls_key, or say behind_proxy: true" 's|^accounts:|api:\n  listen: 0.0.0.0:80\naccounts:|'
wants "fenpay.yaml:8: accounts[0].api_url: must be https" 's|environment: test|environment: production|; s|^    environment: .*|    environment: production\n    api_url: http://x.example.com|'
{ cat good.yaml; sed -n '/- name/,$p' good.yaml; } >two.yaml
[ "$("$fenpay" config --config two.yaml 2>&1)" = "fenpay config: two.yaml:15: accounts[1].name: two accounts are named wx-main" ] || { echo "two of one name"; bad=1; }

{ printf '\xef\xbb\xbf'; cat good.yaml; } >fenpay.yaml
"$fenpay" config >out 2>&1 || { echo "byte order mark"; cat out; bad=1; }

# A secret that others may read, or more than its owner may write, is named; root:fenpay 640 is how many install it.
modes() { # MODE yes|no
  chmod "$1" keys/apiv3.key
  "$fenpay" config >out 2>&1
  local named=no
  grep -q 'fenpay.yaml:13: accounts\[0\].wechat.apiv3_key' out && named=yes
  [ $named = "$2" ] && ! grep -q platform_certs out || { echo "a secret of mode $1"; cat out; bad=1; }
}
chmod 644 keys/platform.cert.pem
modes 400 no
modes 600 no
modes 440 no
modes 640 no
modes 644 yes
modes 604 yes
modes 660 yes
modes 602 yes
exit $bad
