// peer.mjs -- two public WeChat Pay clients from npm as merchants of the sandbox: what they sign it accepts, what it signs and
// encrypts they verify and read. Usage: node peer.mjs NODE_MODULES_PARENT SANDBOX_SERVER
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import http from 'node:http';
import { createRequire } from 'node:module';
import { once } from 'node:events';
import path from 'node:path';
import readline from 'node:readline';

const [home, program] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(home), 'package.json'));

// A merchant's notify endpoint: keeps what arrives, and refuses what it is told to refuse.
async function listen() {
  const waiting = [], got = [];
  const server = http.createServer(async (req, res) => {
    const parts = [];
    for await (const part of req) parts.push(part);
    const callback = { headers: req.headers, body: Buffer.concat(parts).toString() };
    res.writeHead(204).end();
    const taker = waiting.shift();
    if (taker) taker(callback);
    else got.push(callback);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const next = () => got.shift() ?? new Promise((resolve) => waiting.push(resolve));
  return { url: `http://127.0.0.1:${server.address().port}/notify`, next };
}

async function control(base, call, body) {
  const answer = await fetch(`${base}/sandbox/v1/${call}`, {
    method: body ? 'POST' : 'GET',
    headers: { 'Content-Type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  assert.ok(answer.ok, `${call}: ${answer.status}`);
  return answer.status === 204 ? null : answer.json();
}

const order = (site, number, total, notify) => ({
  appid: site.appid, mchid: site.mchid, description: '绿茶 "一" 盒', out_trade_no: number,
  notify_url: notify, attach: 'a/b', amount: { total, currency: 'CNY' },
});

async function axiosPlugin(site, base, merchant) {
  const { Wechatpay, Rsa, Aes, Formatter } = require('wechatpay-axios-plugin');
  const platform = Rsa.from(site.platform_cert, Rsa.KEY_TYPE_PUBLIC);
  const { v3 } = new Wechatpay({
    baseURL: base, mchid: site.mchid, serial: site.serial, privateKey: site.merchant_key,
    certs: { [site.platform_serial]: platform },
  });
  const { pay: { transactions }, refund: { domestic: { refunds } } } = v3;
  const query = { params: { mchid: site.mchid } };
  const read = ({ headers, body }) => { // verified and decrypted by the package
    assert.equal(headers['wechatpay-serial'], site.platform_serial);
    const message = Formatter.response(headers['wechatpay-timestamp'], headers['wechatpay-nonce'], body);
    assert.ok(Rsa.verify(message, headers['wechatpay-signature'], platform), 'callback signature');
    const { event_type, resource } = JSON.parse(body);
    const plain = Aes.AesGcm.decrypt(resource.ciphertext, site.apiv3_key, resource.nonce, resource.associated_data);
    return { event_type, ...JSON.parse(plain) };
  };

  let { data } = await transactions.native.post(order(site, 'AXIOS00001', 8800, merchant.url));
  assert.match(data.code_url, /^weixin:/);
  await assert.rejects(transactions.native.post(order(site, 'AXIOS00001', 8801, merchant.url)),
    ({ response }) => response.status === 403 && response.data.code === 'OUT_TRADE_NO_USED');
  ({ data } = await transactions.outTradeNo['{no}'].get({ ...query, no: 'AXIOS00001' }));
  assert.equal(data.trade_state, 'NOTPAY');

  await control(base, 'pay', { out_trade_no: 'AXIOS00001' });
  const paid = read(await merchant.next());
  assert.equal(paid.event_type, 'TRANSACTION.SUCCESS');
  assert.equal(paid.out_trade_no, 'AXIOS00001');
  assert.equal(paid.amount.total, 8800);
  ({ data } = await transactions.id['{id}'].get({ ...query, id: paid.transaction_id }));
  assert.equal(data.trade_state, 'SUCCESS');

  ({ data } = await refunds.post({
    out_trade_no: 'AXIOS00001', out_refund_no: 'AXIOSR1', reason: '退货', notify_url: merchant.url,
    amount: { refund: 800, total: 8800, currency: 'CNY' },
  }));
  assert.equal(data.status, 'PROCESSING');
  const refunded = read(await merchant.next());
  assert.equal(refunded.event_type, 'REFUND.SUCCESS');
  assert.equal(refunded.amount.refund, 800);
  ({ data } = await refunds['{no}'].get({ no: 'AXIOSR1' }));
  assert.equal(data.status, 'SUCCESS');

  await transactions.native.post(order(site, 'AXIOS00002', 1, merchant.url));
  const closed = await transactions.outTradeNo['{no}'].close.post({ mchid: site.mchid }, { no: 'AXIOS00002' });
  assert.equal(closed.status, 204);

  ({ data: { data } } = await v3.certificates.get());
  const { nonce, associated_data, ciphertext } = data[0].encrypt_certificate;
  assert.equal(Aes.AesGcm.decrypt(ciphertext, site.apiv3_key, nonce, associated_data), site.platform_cert);

  await control(base, 'faults', { fault: 'BAD_SIGNATURE', call: 'query', times: 1 });
  await assert.rejects(transactions.outTradeNo['{no}'].get({ ...query, no: 'AXIOS00001' }), { code: 'EV3_RES_HEADER_SIGNATURE_DIGEST' });
  console.log('ok - wechatpay-axios-plugin');
}

// The package speaks to one host only, so its HTTP goes through ours: the same bytes to the sandbox, raw answers kept.
async function nodeV3(site, base, merchant) {
  const WxPay = require('wechatpay-node-v3');
  const pay = new WxPay({
    appid: site.appid, mchid: site.mchid, serial_no: site.serial, key: site.apiv3_key,
    publicKey: Buffer.from(site.platform_cert), privateKey: Buffer.from(site.merchant_key),
  });
  let last;
  const send = async (method, url, headers, params) => {
    const answer = await fetch(url.replace('https://api.mch.weixin.qq.com', base),
      { method, headers, body: params && JSON.stringify(params) });
    last = { headers: answer.headers, body: await answer.text() };
    return { status: answer.status, data: last.body ? JSON.parse(last.body) : undefined };
  };
  pay.createHttp({
    get: (url, headers) => send('GET', url, headers),
    post: (url, params, headers) => send('POST', url, headers, params),
  });
  const verified = (headers, body) => pay.verifySign({
    timestamp: headers.get('Wechatpay-Timestamp'), nonce: headers.get('Wechatpay-Nonce'), body,
    serial: headers.get('Wechatpay-Serial'), signature: headers.get('Wechatpay-Signature'), apiSecret: site.apiv3_key,
  });
  const expect = async (result, status) => {
    assert.equal(result.status, status, last.body);
    const { headers, body } = last; // verifying may fetch certificates
    assert.ok(await verified(headers, body), 'answer signature');
    return result.data;
  };

  const { appid, mchid, ...rest } = order(site, 'NODEV300001', 8805, merchant.url);
  let data = await expect(await pay.transactions_native(rest), 200);
  assert.match(data.code_url, /^weixin:/);
  await control(base, 'pay', { out_trade_no: 'NODEV300001' });
  const callback = await merchant.next();
  assert.ok(await verified(new Headers(callback.headers), callback.body), 'callback signature');
  const { resource } = JSON.parse(callback.body);
  const plain = pay.decipher_gcm(resource.ciphertext, resource.associated_data, resource.nonce, site.apiv3_key);
  assert.equal(plain.out_trade_no, 'NODEV300001');
  assert.equal(plain.amount.total, 8805);
  data = await expect(await pay.query({ out_trade_no: 'NODEV300001' }), 200);
  assert.equal(data.trade_state, 'SUCCESS');

  const jsapi = order(site, 'NODEV300002', 1, merchant.url);
  delete jsapi.appid;
  delete jsapi.mchid;
  await pay.transactions_jsapi({ ...jsapi, payer: { openid: 'oPEER' } });
  await expect({ status: 200 }, 200);
  await expect(await pay.close('NODEV300002'), 204);
  console.log('ok - wechatpay-node-v3');
}

const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
const ended = once(child, 'exit');
try {
  const [line] = await once(readline.createInterface({ input: child.stdout }), 'line');
  const site = JSON.parse(line);
  const base = `http://127.0.0.1:${site.port}`;
  const merchant = await listen();
  await axiosPlugin(site, base, merchant);
  await nodeV3(site, base, merchant);
  const { balance } = await control(base, `balance?mchid=${site.mchid}`);
  assert.equal(balance, 8800 - 800 + 8805);
} catch (error) { // the packages' errors carry whole sockets
  console.log(error.stack, error.response?.data ?? '');
  process.exitCode = 1;
} finally {
  child.stdin.end();
  await ended;
}
process.exit();
