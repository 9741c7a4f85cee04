/* open.c -- what every command that works on the database does first. */
#include "app/open.h"

#include <stdio.h>

#include "app/dev.h"

struct runtime *command_open(const struct command *self, const struct open_options *o,
                             struct arena *a, int *ret_exit)
{
    struct err_info info = { 0 };
    struct dev_site site;
    struct runtime *r = NULL;
    struct runtime_options ro = { .config_path = str_cstr(a, o->config), .second_writer = true };
    enum err e = ERR_OK;
    if (o->data.n) {
        struct env env;
        env_init_real(&env, NULL, NULL);
        e = dev_site_make(str_cstr(a, o->data), STR("http://127.0.0.1:8088"),
                          STR("http://127.0.0.1:8443/notify"), &env, a, &site, &info);
        ro.settings = &site.settings;
    }
    if (!e)
        e = runtime_open(&ro, &r, &info);
    if (e)
        *ret_exit = complain(self, e, &info);
    return r;
}

void command_print(bool json, const struct printed items[], size_t n)
{
    if (!json) {
        for (size_t i = 0; i < n; i++)
            printf("%-12s " STR_FMT "\n", items[i].key, STR_ARG(items[i].value));
        return;
    }
    BUF_AUTO b = { 0 };
    struct json_out out;
    buf_init(&b, 1 << 20);
    json_out_init(&out, &b);
    json_begin_object(&out);
    for (size_t i = 0; i < n; i++)
        json_kv_str(&out, items[i].key, items[i].value);
    json_end_object(&out);
    printf(STR_FMT "\n", STR_ARG(buf_str(&b)));
}
