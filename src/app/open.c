/* open.c -- what every command that works on the database does first. */
#include "app/open.h"

#include <stdio.h>

#include "app/dev.h"
#include "app/words.h"

enum err command_settings(const struct open_options *o, struct arena *a, struct settings *ret,
                          struct err_info *info)
{
    if (!o->data.n)
        return settings_read(a, str_cstr(a, o->config), ret, info);
    struct env env;
    struct dev_site site;
    struct dev_ports ports = DEV_PORTS;
    env_init_real(&env, NULL, NULL);
    enum err e = dev_site_make(str_cstr(a, o->data), dev_url(a, ports.sandbox, ""),
                               dev_url(a, ports.notify, "/notify"), &env, a, &site, info);
    if (!e)
        *ret = site.settings;
    return e;
}

struct runtime *command_open(const struct command *self, const struct open_options *o,
                             struct arena *a, int *ret_exit)
{
    struct err_info info = { 0 };
    struct settings settings;
    struct runtime *r = NULL;
    struct runtime_options ro = { .settings = &settings, .second_writer = true };
    enum err e = command_settings(o, a, &settings, &info);
    if (!e)
        e = runtime_open(&ro, &r, &info);
    if (e)
        *ret_exit = complain(self, e, &info);
    return r;
}

enum err command_find_caller(struct runtime *r, struct arena *a, struct str name,
                             struct caller_ref *ret, struct err_info *info)
{
    struct caller_row rows[256];
    size_t n = 0;
    enum err e = caller_list(&r->centre, a, rows, 256, &n, info);
    for (size_t i = 0; !e && i < n; i++)
        if (str_eq(rows[i].name, name)) {
            *ret = (struct caller_ref) { rows[i].id, rows[i].name };
            return ERR_OK;
        }
    return e ? e : err_set(info, ERR_NOT_FOUND, "no caller named '" STR_FMT "'", STR_ARG(name));
}

const char *command_code_text(enum code code)
{
    const struct code_info *info = code_info(code);
    return word_language() == LANGUAGE_CHINESE ? info->zh : info->en;
}

static void print_member(struct json_out *out, const struct printed *p)
{
    struct str rest = p->value;
    json_key(out, p->key);
    switch (p->type) {
    case PRINTED_TEXT:
        json_str(out, p->value);
        break;
    case PRINTED_INT:
        json_put_raw(out, p->value);
        break;
    case PRINTED_LIST:
        json_begin_array(out);
        while (rest.n)
            json_str(out, str_cut(&rest, ','));
        json_end_array(out);
        break;
    }
}

void command_print(bool json, const struct printed items[], size_t n)
{
    if (!json) {
        for (size_t i = 0; i < n; i++)
            if (items[i].value.n)
                printf("%-12s " STR_FMT "\n", items[i].key, STR_ARG(items[i].value));
        return;
    }
    BUF_AUTO b = { 0 };
    struct json_out out;
    buf_init(&b, 1 << 20);
    json_out_init(&out, &b);
    json_begin_object(&out);
    for (size_t i = 0; i < n; i++)
        print_member(&out, &items[i]);
    json_end_object(&out);
    printf(STR_FMT "\n", STR_ARG(buf_str(&b)));
}
