/* The chain of moves and what an edit does to it; incidents that count; the timeline; error codes.
 */
#include "core_world.h"

#include "base/clock.h"

#include "bus/bus.h"
#include "core/invariant/invariant.h"

struct reading {
    int64_t pay_id;
    enum err result;
    size_t n;
    struct err_info info;
};

static enum err read_chain(struct tx *tx, void *arg, struct err_info *info)
{
    struct reading *r = arg;
    struct payment p;
    struct journal_row *rows;
    enum err e = payment_load(tx, r->pay_id, &p, info);
    if (e)
        return e;
    r->result = journal_read(tx, &p.journal, &rows, &r->n, &r->info);
    return ERR_OK;
}

static enum err chain(struct core *w, struct number pay_no)
{
    struct reading r = { .pay_id = pay_no.id };
    world_read(&w->world, read_chain, &r);
    return r.result;
}

static void every_edit_shows(void **state)
{
    (void)state;
    static const struct sql edits[] = {
        { "edit 0", "UPDATE state_journal SET to_status = 2 WHERE seq = 1 AND kind = 80" },
        { "edit 1", "UPDATE state_journal SET from_status = 1 WHERE seq = 1 AND kind = 80" },
        { "edit 2", "UPDATE state_journal SET actor = 'somebody' WHERE seq = 2 AND kind = 80" },
        { "edit 3", "UPDATE state_journal SET evidence_ref = 1 WHERE seq = 3 AND kind = 80" },
        { "edit 4",
          "UPDATE state_journal SET create_time = create_time + 1 WHERE seq = 3 AND kind = 80" },
        { "edit 5", "UPDATE state_journal SET note = 'x' WHERE seq = 1 AND kind = 80" },
        { "edit 6", "UPDATE state_journal SET trace_id = NULL WHERE seq = 2 AND kind = 80" },
        { "edit 7",
          "UPDATE state_journal SET subject_id = subject_id + 1 WHERE seq = 2 AND kind = 80" },
        { "edit 8",
          "UPDATE state_journal SET prev_hash = zeroblob(32) WHERE seq = 2 AND kind = 80" },
        { "edit 9", "DELETE FROM state_journal WHERE seq = 2 AND kind = 80" },
        { "edit 10", "UPDATE state_journal SET cause = 11 WHERE seq = 3 AND kind = 80" },
        { "edit 11", "UPDATE payment_order SET journal_seq = 2" },
        { "edit 12", "UPDATE payment_order SET journal_hash = zeroblob(32)" },
    };
    for (size_t i = 0; i < COUNT(edits); i++) {
        struct core w;
        core_open(&w);
        struct payment p = core_pay(&w, core_order(&w, "o1", 8800).no);
        core_paid(&w, p.no, 8800, "T1");
        assert_int_equal(chain(&w, p.no), ERR_OK);
        world_exec(&w.world, &edits[i]);
        check_row(chain(&w, p.no) == ERR_CONFLICT, edits[i].name);
        core_close(&w);
    }
}

/* The hash of a fixed row: the format is for ever. */
static void a_known_hash(void **state)
{
    (void)state;
    struct arena *a = arena_new(1024);
    struct journal_row row = {
        .id = 5,
        .subject = number_make(NUMBER_PAYMENT, 3, 4),
        .seq = 1,
        .from = -1,
        .to = 0,
        .cause = CAUSE_CREATED,
        .evidence_kind = EVIDENCE_NONE,
        .actor = STR("caller:shop"),
        .trace_id = STR("t"),
        .time_ms = WORLD_NOW_MS,
    };
    struct number_text no = number_text(row.subject);
    struct str text =
        str_printf(a,
                   "5\x1f%s\x1f"
                   "1\x1f-1\x1f"
                   "0\x1f"
                   "1\x1f"
                   "0\x1f"
                   "0\x1f"
                   "caller:shop\x1ft\x1f\x1f"
                   "0\x1f"
                   "0000000000000000000000000000000000000000000000000000000000000000\x1f%lld\x1f",
                   no.s, (long long)WORLD_NOW_MS);
    struct sha256 hash = journal_hash(&row), expected = sha256(text);
    assert_memory_equal(hash.b, expected.b, sizeof hash.b);
    arena_free(a);
}

/* ---- incidents ---- */

struct opening {
    struct incident incident;
    struct incident_opened ret;
};

static enum err opening_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct opening *o = arg;
    return incident_open(tx, &o->incident, &o->ret, info);
}

static bool opens(struct core *w, enum incident_kind kind, int64_t subject,
                  const char *discriminator)
{
    struct opening o = { .incident = { .kind = kind,
                                       .subject = number_make(NUMBER_PAYMENT, 3, subject),
                                       .discriminator = str_of(discriminator),
                                       .caller = CALLER,
                                       .detail = STR("why") } };
    world_run(&w->world, opening_rule, &o);
    return o.ret.opened;
}

static void one_incident_and_its_count(void **state)
{
    struct core *w = *state;
    assert_true(opens(w, INCIDENT_PAID_TWICE, 5, NULL));
    core_advance(w, 1000);
    assert_false(opens(w, INCIDENT_PAID_TWICE, 5, NULL));
    assert_false(opens(w, INCIDENT_PAID_TWICE, 5, ""));
    assert_int_equal(ASK(&w->world, "SELECT count FROM incident"), 3);
    assert_int_equal(ASK(&w->world, "SELECT last_seen - create_time FROM incident"), 1000);
    assert_true(opens(w, INCIDENT_PAID_TWICE, 5, "T2"));
    assert_true(opens(w, INCIDENT_PAID_TWICE, 6, NULL));
    assert_true(opens(w, INCIDENT_STATUS_CONFLICT, 5, NULL));
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident"), 4);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 13"), 4);
}

struct listing {
    struct incident_filter filter;
    struct incident_row rows[10];
    size_t n;
};

static enum err listing_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct listing *l = arg;
    l->filter.limit = 2;
    return incident_list(tx, &l->filter, l->rows, &l->n, info);
}

static enum err count_open_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return invariant_incidents(tx, arg, info);
}

static void open_incidents_are_counted_by_kind(void **state)
{
    struct core *w = *state;
    struct invariant_incidents n;
    for (int64_t i = 1; i <= 130; i++)
        opens(w, i % 13 ? INCIDENT_PAID_TWICE : INCIDENT_QUERY_STUCK, i, NULL);
    world_read(&w->world, count_open_rule, &n);
    assert_int_equal(n.open[INCIDENT_PAID_TWICE], 120);
    assert_int_equal(n.open[INCIDENT_QUERY_STUCK], 10);
    assert_int_equal(n.open[INCIDENT_KEY_EXPIRING], 0);
}

static void listing_incidents(void **state)
{
    struct core *w = *state;
    for (int i = 0; i < 3; i++)
        opens(w, INCIDENT_PAID_TWICE, 5 + i, NULL);
    struct listing l = { { .caller = CALLER } };
    world_read(&w->world, listing_rule, &l);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.rows[0].subject.id, 7);
    l.filter.before = l.rows[1].no.id;
    world_read(&w->world, listing_rule, &l);
    assert_int_equal(l.n, 1);
    assert_int_equal(l.rows[0].subject.id, 5);
    l = (struct listing) { { .caller = 8, .state = -1 } };
    world_read(&w->world, listing_rule, &l);
    assert_int_equal(l.n, 0);
    l = (struct listing) { { .state = 1 } };
    world_read(&w->world, listing_rule, &l);
    assert_int_equal(l.n, 0);
}

/* ---- the timeline ---- */

static bool told(const struct timeline_entry *entries, size_t n, enum timeline_kind kind,
                 const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (entries[i].kind == kind && str_starts(entries[i].text, str_of(text)))
            return true;
    return false;
}

static void the_story_of_an_order(void **state)
{
    (void)state;
    struct core w;
    core_open(&w);
    struct number no = core_order(&w, "o1", 8800).no;
    core_advance(&w, 1000);
    struct payment p = core_pay(&w, no);
    core_advance(&w, 1000);
    core_paid(&w, p.no, 8800, "T1");
    core_paid(&w, p.no, 8800, "T2");
    core_advance(&w, 1000);
    core_settle(&w, no);

    struct timeline_entry *t;
    struct refusal r = { 0 };
    size_t n;
    assert_int_equal(timeline_read(&w.c, &w.act, no, &t, &n, &r), CODE_OK);
    for (size_t i = 1; i < n; i++)
        assert_true(t[i - 1].time_ms <= t[i].time_ms);
    assert_true(told(t, n, TIMELINE_JOURNAL, "order nothing -> WAIT_PAY"));
    assert_true(told(t, n, TIMELINE_JOURNAL, "order WAIT_PAY -> PAYING"));
    assert_true(told(t, n, TIMELINE_JOURNAL, "order PAYING -> PAID (settle)"));
    assert_true(told(t, n, TIMELINE_JOURNAL, "payment INIT -> PAYING (prepay)"));
    assert_true(told(t, n, TIMELINE_JOURNAL, "payment PAYING -> SUCCESS (callback)"));
    assert_true(told(t, n, TIMELINE_CALL, "prepay at account main: done"));
    assert_true(told(t, n, TIMELINE_EVENT, "event payment.success"));
    assert_true(told(t, n, TIMELINE_EVENT, "event order.paid"));
    assert_true(told(t, n, TIMELINE_INCIDENT, "incident TRANSACTION_CLASH, open"));
    for (size_t i = 0; i < n; i++) {
        const struct json *parsed;
        struct err_info info = { 0 };
        assert_ok(json_parse(w.world.arena, t[i].detail, &parsed, &info));
    }

    size_t of_payment;
    assert_int_equal(timeline_read(&w.c, &w.act, p.no, &t, &of_payment, &r), CODE_OK);
    assert_true(of_payment < n);
    EXEC(&w.world, "UPDATE state_journal SET to_status = 3 WHERE seq = 2 AND kind = 79");
    assert_int_equal(timeline_read(&w.c, &w.act, no, &t, &n, &r), CODE_OK);
    assert_true(told(t, n, TIMELINE_JOURNAL, "journal row"));
    assert_true(told(t, n, TIMELINE_JOURNAL, "payment PAYING -> SUCCESS"));

    w.act.caller.id = 8;
    assert_int_equal(timeline_read(&w.c, &w.act, no, &t, &n, &r), CODE_NOT_FOUND);
    w.act.caller.id = 0; /* the operator */
    assert_int_equal(timeline_read(&w.c, &w.act, no, &t, &n, &r), CODE_OK);
    core_close(&w);
}

/* ---- codes ---- */

static void codes(void **state)
{
    (void)state;
    assert_string_equal(code_info(CODE_OK)->name, "OK");
    assert_int_equal(code_info(CODE_ORDER_MISMATCH)->status, 409);
    for (int c = CODE_OK; c <= CODE_CHANNEL_BUSY; c++) {
        const struct code_info *info = code_info((enum code)c);
        check_row(info->status >= 200 && info->status < 600 && info->zh[0] && info->en[0],
                  info->name);
    }
}

static enum err waiting_rule(struct tx *tx, void *arg, struct err_info *info)
{
    SQL(waiting,
        "INSERT INTO event_delivery (event_id, target, state, tries, next_time, lease_until, "
        "last_error, version, create_time, update_time) SELECT min(id), 'webhook:1', 0, 1, ?, ?, "
        "'answered 500', 1, 0, 0 FROM outbox");
    enum err e = tx_exec(
        tx, &waiting, BINDS(bind_int(WORLD_NOW_MS + 5000), bind_int(*(int64_t *)arg)), NULL, info);
    return e == ERR_EXISTS ? ERR_OK : e; /* it has run before */
}

static void when_a_delivery_is_tried_next(void **state)
{
    (void)state;
    for (int leased = 0; leased < 2; leased++) {
        struct core w;
        core_open(&w);
        struct payment p = core_pay(&w, core_order(&w, "o1", 8800).no);
        core_paid(&w, p.no, 8800, "T1");
        int64_t lease_ms = leased ? WORLD_NOW_MS + 5000 : 0;
        world_run(&w.world, waiting_rule, &lease_ms);
        struct timeline_entry *t;
        struct refusal r = { 0 };
        size_t n;
        assert_int_equal(timeline_read(&w.c, &w.act, p.no, &t, &n, &r), CODE_OK);
        const char *want = str_printf(w.world.arena,
                                      "payment.success to webhook:1: pending; tries: 1%s; next "
                                      "try " STR_FMT,
                                      leased ? "; on its way" : "",
                                      STR_ARG(clock_rfc3339_ms(w.world.arena, WORLD_NOW_MS + 5000)))
                               .p;
        assert_true(told(t, n, TIMELINE_DELIVERY, want));
        core_check(&w);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(when_a_delivery_is_tried_next),
        cmocka_unit_test(every_edit_shows),
        cmocka_unit_test(a_known_hash),
        CORE_TEST(one_incident_and_its_count),
        CORE_TEST(open_incidents_are_counted_by_kind),
        CORE_TEST(listing_incidents),
        cmocka_unit_test(the_story_of_an_order),
        cmocka_unit_test(codes),
    };
    return RUN_CORE_TESTS(tests);
}
