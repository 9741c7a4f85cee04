#!/usr/bin/env bash
# words.sh FENPAY -- in a Chinese environment every line of help that says something says it in Chinese.
set -uo pipefail
fenpay=$1 bad=0
lines() {
  LC_ALL=zh_CN.UTF-8 "$fenpay" --help | grep -E '^  [a-z]'
  for command in serve migrate sandbox demo doctor explain replay verify caller webhook incident config secret bench; do
    LC_ALL=zh_CN.UTF-8 "$fenpay" "$command" --help | tail -n +3 | grep -v '^$'
  done
}
while read -r line; do
  if ! LC_ALL=C grep -q '[^ -~]' <<<"$line"; then
    echo "only English: $line"
    bad=1
  fi
done < <(lines)
[ "$(lines | wc -l)" -gt 60 ] || bad=1
exit $bad
