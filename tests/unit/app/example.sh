#!/usr/bin/env bash
# example.sh FENPAY SOURCE -- the configuration shipped as an example is accepted once the keys it names are there.
set -euo pipefail
fenpay=$1 source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/secrets"
cd "$dir"
cp "$source/ops/fenpay.example.yaml" fenpay.yaml
umask 077
"$fenpay" secret new >secrets/master.key
openssl req -x509 -newkey rsa:2048 -nodes -keyout secrets/apiclient_key.pem -out secrets/apiclient_cert.pem -days 30 -subj /CN=test 2>/dev/null
openssl rand -hex 16 >secrets/apiv3.key
openssl genrsa 2048 2>/dev/null | openssl rsa -pubout -out secrets/pub_key.pem 2>/dev/null
"$fenpay" config
