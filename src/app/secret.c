/* secret.c -- makes a master key; encrypts and decrypts values for the configuration ("enc:v1:…",
 * under FENPAY_MASTER_KEY). */
#include "crypto/secret.h"

#include <stdio.h>
#include <stdlib.h>

#include "app/commands.h"
#include "base/arena.h"
#include "base/buf.h"

static enum err master_key(struct arena *a, struct str *ret, struct err_info *info)
{
    struct str hex = str_of(getenv("FENPAY_MASTER_KEY"));
    if (hex.n != 64 || str_unhex(a, hex, ret))
        return err_set(info, ERR_INVALID,
                       "FENPAY_MASTER_KEY must hold the master key, 64 hex digits");
    return ERR_OK;
}

/* Standard input without its last line end: values never stand on a command line, where others can
 * read them. */
static enum err read_value(struct arena *a, struct str *ret, struct err_info *info)
{
    char *text = arena_alloc(a, 65536);
    size_t n = fread(text, 1, 65536, stdin);
    if (n == 0 || n == 65536)
        return err_set(info, ERR_INVALID,
                       "the value is read from standard input, 1 to 65535 bytes");
    if (text[n - 1] == '\n')
        n--;
    *ret = (struct str) { text, n };
    return ERR_OK;
}

int command_secret(const struct command *self, int argc, char **argv)
{
    int exit_code;
    struct str action;
    struct option options[] = { { 0 } };
    if (!args_parse(self, argc, argv, options, 1, 1, &action, NULL, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(8192);
    struct err_info info = { 0 };
    struct env env;
    struct str key, value, result;
    enum err e = ERR_OK;
    arena_mark_secret(a);
    env_init_real(&env, NULL, NULL);
    if (str_eq(action, STR("new"))) {
        char bytes[32];
        env_random(&env, bytes, sizeof bytes);
        result = str_hex(a, bytes, sizeof bytes);
        secret_wipe(bytes, sizeof bytes);
    } else if (str_eq(action, STR("encrypt"))) {
        if (!(e = master_key(a, &key, &info)) && !(e = read_value(a, &value, &info)))
            e = secret_encrypt(&env, key, STR("config"), value, a, &result);
    } else if (str_eq(action, STR("decrypt"))) {
        if (!(e = master_key(a, &key, &info)) && !(e = read_value(a, &value, &info)))
            e = secret_decrypt(key, STR("config"), value, a, &result, &info);
    } else
        e = err_set(&info, ERR_INVALID, "new, encrypt or decrypt; not '" STR_FMT "'",
                    STR_ARG(action));
    if (e)
        return complain(self, e, &info);
    printf(STR_FMT "\n", STR_ARG(result));
    return EXIT_FINE;
}
