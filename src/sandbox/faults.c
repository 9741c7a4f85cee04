/* faults.c -- what goes wrong on purpose: rules in the order in which they were given, each hit
 * counted.
 *
 * Faults of callbacks, payers and refunds happen in one place only, so their rules need no `call`.
 * The caller holds the lock. */
#include "sandbox/internal.h"

#include "base/rand.h"

static const struct {
    const char *name;
    bool one_place; /* the rule's `call` is not looked at */
} known[] = {
    [FAULT_CALLBACK_LOSE] = { "CALLBACK_LOSE", true },
    [FAULT_CALLBACK_DELAY] = { "CALLBACK_DELAY", true },
    [FAULT_CALLBACK_DUPLICATE] = { "CALLBACK_DUPLICATE", true },
    [FAULT_CALLBACK_REORDER] = { "CALLBACK_REORDER", true },
    [FAULT_CALLBACK_BAD_SIGNATURE] = { "CALLBACK_BAD_SIGNATURE", true },
    [FAULT_CALLBACK_CORRUPT] = { "CALLBACK_CORRUPT", true },
    [FAULT_CALLBACK_PROBE] = { "CALLBACK_PROBE", true },
    [FAULT_CALLBACK_WRONG_AMOUNT] = { "CALLBACK_WRONG_AMOUNT", true },
    [FAULT_CALLBACK_WRONG_MERCHANT] = { "CALLBACK_WRONG_MERCHANT", true },
    [FAULT_CALLBACK_UNKNOWN_SERIAL] = { "CALLBACK_UNKNOWN_SERIAL", true },
    [FAULT_ANSWER_LOST] = { "ANSWER_LOST", false },
    [FAULT_TIMEOUT] = { "TIMEOUT", false },
    [FAULT_NOT_SENT] = { "NOT_SENT", false },
    [FAULT_ERROR] = { "ERROR", false },
    [FAULT_HTTP_500] = { "HTTP_500", false },
    [FAULT_HTTP_429] = { "HTTP_429", false },
    [FAULT_UNSIGNED] = { "UNSIGNED", false },
    [FAULT_BAD_SIGNATURE] = { "BAD_SIGNATURE", false },
    [FAULT_GARBAGE] = { "GARBAGE", false },
    [FAULT_WRONG_AMOUNT_TAKEN] = { "WRONG_AMOUNT_TAKEN", true },
    [FAULT_HTTP_429_DONE] = { "HTTP_429_DONE", false },
    [FAULT_REFUND_STUCK] = { "REFUND_STUCK", true },
    [FAULT_REFUND_CLOSED] = { "REFUND_CLOSED", true },
    [FAULT_REFUND_ABNORMAL] = { "REFUND_ABNORMAL", true },
    [FAULT_CALLBACK_UNSIGNED] = { "CALLBACK_UNSIGNED", true },
    [FAULT_PAY_CLOSED] = { "PAY_CLOSED", true },
    [FAULT_REFUND_UNSEEN] = { "REFUND_UNSEEN", true },
};
_Static_assert(sizeof(known) / sizeof(known[0]) == SANDBOX_FAULTS, "every fault has a name");

void sandbox_faults_init(struct faults *f, uint64_t seed)
{
    f->arena = arena_new(1024);
    f->first = NULL;
    f->last = &f->first;
    f->happened = 0;
    rand_seed(&f->rand, seed);
}

void sandbox_faults_done(struct faults *f)
{
    arena_free(f->arena);
}

static struct str or_any(struct arena *a, struct str s)
{
    return s.n ? str_dup(a, s) : STR("*");
}

void sandbox_faults_add(struct faults *f, const struct sandbox_fault_rule *rule)
{
    struct fault_entry *e = arena_one(f->arena, struct fault_entry);
    e->rule = *rule;
    e->rule.call = or_any(f->arena, rule->call);
    e->rule.mchid = or_any(f->arena, rule->mchid);
    e->rule.code = str_dup(f->arena, rule->code);
    if (!rule->times)
        e->rule.times = -1;
    *f->last = e;
    f->last = &e->next;
}

void sandbox_faults_clear(struct faults *f)
{
    arena_reset(f->arena);
    f->first = NULL;
    f->last = &f->first;
}

static bool covers(struct str pattern, struct str text)
{
    return str_eq(pattern, STR("*")) || str_eq(pattern, text);
}

bool sandbox_faults_hit(struct faults *f, enum sandbox_fault fault, struct str call,
                        struct str mchid, struct sandbox_fault_rule *ret)
{
    for (struct fault_entry *e = f->first; e; e = e->next) {
        struct sandbox_fault_rule *r = &e->rule;
        if (r->fault != fault || r->times == 0 || !covers(r->mchid, mchid))
            continue;
        if (!known[fault].one_place && !covers(r->call, call))
            continue;
        if (r->percent > 0 && (int64_t)rand_below(&f->rand, 100) >= r->percent)
            continue;
        if (r->times > 0)
            r->times--;
        f->happened++;
        if (ret)
            *ret = *r;
        return true;
    }
    return false;
}

const char *sandbox_fault_name(enum sandbox_fault fault)
{
    return known[fault].name;
}

bool sandbox_fault_of_name(struct str name, enum sandbox_fault *ret)
{
    for (size_t i = 0; i < SANDBOX_FAULTS; i++) {
        if (str_eq(str_of(known[i].name), name)) {
            *ret = (enum sandbox_fault)i;
            return true;
        }
    }
    return false;
}
