/* code.c -- the error registry as a table: CODES in code.h is its only source. */
#include "core/code.h"

#include <assert.h>

static const struct code_info infos[] = { [CODE_OK] = { "OK", 200, "成功", "OK", "" },
#define CODE_INFO(name, status, zh, en, todo) [CODE_##name] = { #name, status, zh, en, todo },
                                          CODES(CODE_INFO)
#undef CODE_INFO
};

const struct code_info *code_info(enum code code)
{
    assert((size_t)code < sizeof infos / sizeof infos[0]);
    return &infos[code];
}
