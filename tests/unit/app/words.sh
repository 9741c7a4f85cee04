#!/usr/bin/env bash
# words.sh FENPAY -- in a Chinese environment the commands speak Chinese: every line of help that says something, and what real mistakes and
# checks print, has Chinese and no English sentence in it; --lang is stronger than the environment.
set -uo pipefail
fenpay=$1 bad=0
export LC_ALL=zh_CN.UTF-8
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

chinese() { # WHAT: each line of standard input
  local line
  while read -r line; do
    line=${line//fenpay secret new/}
    if ! LC_ALL=C grep -q '[^ -~]' <<<"$line" || LC_ALL=C grep -Eq '[a-z]{2,} [a-z]{2,} [a-z]{2,}' <<<"$line"; then
      echo "only English ($1): $line"
      bad=1
    fi
  done
}

lines() {
  "$fenpay" --help | grep -E '^  [a-z]'
  for command in serve migrate sandbox demo doctor explain replay verify caller webhook incident config sim secret bench; do
    "$fenpay" "$command" --help | tail -n +3 | grep -v '^$'
  done
}
lines 2>/dev/null >out
[ "$(wc -l <out)" -gt 60 ] || bad=1
chinese help <out

wants() { # CODE TEXT COMMAND...: everything it prints is Chinese, and TEXT is in it
  local code=$1 text=$2
  shift 2
  "$fenpay" "$@" >out 2>&1
  local got=$?
  if [ $got != "$code" ] || ! grep -Fq -- "$text" out; then
    echo "$*: exit $got, wanted $code and: $text"
    cat out
    bad=1
  fi
  chinese "$*" <out
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
changed() { # SED-SCRIPT
  sed "$1" fenpay.yaml >changed.yaml
  echo changed.yaml
}
wants 0 '正常，1 个账户' config
wants 2 "changed.yaml:3: 未知的配置项 'notfy'（是否想写 'notify'？）" config --config "$(changed 's/notify:/notfy:/')"
wants 2 "changed.yaml:1: 'environment': 'tst' 不在 dev|test|production 之中（是否想写 'test'？）" config --config "$(changed 's/^environment: test/environment: tst/')"
wants 2 'changed.yaml:7: accounts[0].wechat.mchid: 必须是 1 到 32 位数字' config --config "$(changed "s/'1900000001'/x/")"
wants 2 'changed.yaml:3: notify.public_url: 由它生成的回调地址必须是 https' config --config "$(changed 's/https/http/')"
wants 2 "changed.yaml:2: 'master_key': 无法打开 './keys/no.key'：没有那个文件或目录" config --config "$(changed 's|keys/master.key|keys/no.key|')"
wants 1 'nowhere.yaml：无法读取（没有那个文件或目录）' config --config nowhere.yaml
wants 1 '请先运行 fenpay migrate' doctor --offline
wants 75 '请先运行 fenpay migrate' serve
wants 0 '数据库已是最新' migrate
wants 0 '剩余' doctor --offline
"$fenpay" caller add shop >/dev/null
wants 1 '名称已被使用' caller add shop
wants 1 '没有这个接入方' caller keys nobody
wants 1 "没有名为 'nobody' 的接入方" webhook list --caller nobody
wants 1 "找不到 'A-9'" explain A-9
wants 2 '不是回调号' replay x
wants 2 '没有名为' incident resolve nothing I1
wants 1 '异常单不存在' incident show x
wants 2 '未知选项' doctor --nonsense
wants 0 '符合预期' demo --quiet --story paid_native
wants 2 '--lang' doctor --lang fr
"$fenpay" config --states | grep -v '^|---\|^$' | chinese states
"$fenpay" config --describe | grep -v '^[a-z]' | chinese describe

heard() { # LANG TEXT COMMAND...
  LC_ALL=$1 "$fenpay" "${@:3}" >out 2>&1
  grep -Fq -- "$2" out || { echo "${*:3}: lacks $2"; bad=1; }
}
heard C '找不到' --lang zh-CN explain A-9
heard zh_CN.UTF-8 'nothing is known' explain A-9 --lang=en
heard C '"verdict":"BAD","text":"请先运行' doctor --offline --data keys --json --lang zh
exit $bad
