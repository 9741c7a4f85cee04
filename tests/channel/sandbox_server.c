/* The sandbox behind HTTP with keys made on the spot, for merchants written by others. Prints one
 * line of JSON with all that such a merchant has to know, and ends when its standard input does. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "crypto/x509.h"
#include "sandbox/sandbox.h"

#define MCHID  "1900000001"
#define APPID  "wxpeer0000000001"
#define SERIAL "3775B6A45ACD588826D15E583A95F5DD3A9C5D1E"
#define APIV3  "0123456789abcdef0123456789ABCDEF"

static void must(enum err e, const struct err_info *info)
{
    if (!e)
        return;
    fprintf(stderr, "sandbox_server: %s: %s\n", err_name(e), info->text);
    exit(1);
}

static void say(const struct sandbox_wechat *w, struct str merchant_key, int port, struct arena *a)
{
    struct buf b;
    struct json_out o;
    buf_init_arena(&b, a, 65536);
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_kv_int(&o, "port", port);
    json_kv_str(&o, "mchid", w->mchid);
    json_kv_str(&o, "appid", w->appid);
    json_kv_str(&o, "serial", w->merchant_serial);
    json_kv_str(&o, "apiv3_key", w->apiv3_key);
    json_kv_str(&o, "merchant_key", merchant_key);
    json_kv_str(&o, "platform_serial", w->platform_serial);
    json_kv_str(&o, "platform_cert", w->platform_cert_pem);
    json_end_object(&o);
    printf(STR_FMT "\n", STR_ARG(buf_str(&b)));
    fflush(stdout);
}

int main(void)
{
    struct env env;
    struct err_info info = { 0 };
    struct rsa_key *merchant, *public, *platform;
    struct sandbox *sandbox;
    struct http_server *server;
    ARENA_AUTO a = arena_new(65536);
    env_init_real(&env, NULL, NULL);
    int64_t now_ms = env_now_ms(&env);
    must(rsa_generate(2048, &merchant, &info), &info);
    must(rsa_generate(2048, &platform, &info), &info);
    public = rsa_public_of(merchant);

    struct transport *callbacks = client_new(&info);
    struct sandbox_options o = { .env = &env, .wechat_count = 1, .callbacks = callbacks };
    struct sandbox_wechat *w = &o.wechat[0];
    *w = (struct sandbox_wechat) { .mchid = STR(MCHID),
                                   .appid = STR(APPID),
                                   .merchant_serial = STR(SERIAL),
                                   .merchant_public_pem = rsa_public_pem(a, public),
                                   .apiv3_key = STR(APIV3),
                                   .platform_serial =
                                       STR("5157F09EFDC096DE15EBE81A47057A7232F1B8E1"),
                                   .platform_key_pem = rsa_private_pem(a, platform) };
    must(certificate_make(platform, STR("Fenpay sandbox"), w->platform_serial, now_ms - 86400000,
                          now_ms + 86400000, a, &w->platform_cert_pem, &info),
         &info);
    must(sandbox_new(&o, &sandbox, &info), &info);
    struct http_server_options ho = { .name = "sandbox",
                                      .listen = STR("127.0.0.1:0"),
                                      .loops = 1,
                                      .routes = sandbox_routes,
                                      .service = sandbox };
    must(http_server_start(&env, &ho, &server, &info), &info);
    say(w, rsa_private_pem(a, merchant), http_server_port(server), a);

    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    http_server_stop(server, 0);
    sandbox_free(sandbox);
    client_free(callbacks);
    rsa_unref(merchant);
    rsa_unref(public);
    rsa_unref(platform);
    return 0;
}
