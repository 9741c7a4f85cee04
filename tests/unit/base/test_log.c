/* Log lines: both forms, redaction with marker secrets, escaping, and what is buffered until when.
 * Written to a pipe. */
#include "../check.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/env.h"
#include "base/log.h"

#define NOW 1767234896123 /* 2026-01-01T10:34:56.123+08:00 */

struct fixture {
    int pipe[2];
    struct env_test env;
    struct log *log;
    char seen[1 << 16];
};

static void begin(struct fixture *f, enum log_level min, bool json)
{
    assert_int_equal(pipe2(f->pipe, O_NONBLOCK), 0);
    env_init_test(&f->env, NOW, 1);
    f->log = log_new(f->pipe[1], min, json);
    log_set_env(f->log, &f->env.env);
}

/* What has reached the pipe by now. */
static const char *written(struct fixture *f)
{
    ssize_t n = read(f->pipe[0], f->seen, sizeof(f->seen) - 1);
    f->seen[n > 0 ? n : 0] = '\0';
    return f->seen;
}

static void end(struct fixture *f)
{
    log_free(f->log);
    close(f->pipe[0]);
    close(f->pipe[1]);
}

static void test_json(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, LOG_INFO, true);
    LOG(f.log, LOG_WARN, "payment.moved", log_str("pay_no", STR("P1")), log_int("fen", -5),
        log_cstr("from", "PAYING"), log_mask("payer", STR("oUpF8uMuAJO_M2pxb1Q9zNjWeS6o")),
        log_mask("name", STR("张三")), log_cstr("none", NULL));
    assert_string_equal(
        written(&f),
        "{\"time\":\"2026-01-01T10:34:56.123+08:00\",\"level\":\"warn\",\"event\":\"payment."
        "moved\",\"pay_no\":\"P1\","
        "\"fen\":-5,\"from\":\"PAYING\",\"payer\":\"oU***6o\",\"name\":\"***\",\"none\":\"\"}\n");
    LOG(f.log, LOG_ERROR, "plain");
    assert_string_equal(
        written(&f),
        "{\"time\":\"2026-01-01T10:34:56.123+08:00\",\"level\":\"error\",\"event\":\"plain\"}\n");
    log_write(f.log, LOG_ERROR, "no_list", NULL);
    assert_non_null(strstr(written(&f), "no_list"));
    end(&f);
}

static void test_readable(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, LOG_INFO, false);
    LOG(f.log, LOG_WARN, "key.near_end", log_cstr("account", "wx-main"), log_int("days", 7),
        log_cstr("why", "not \"renewed\""), log_cstr("empty", ""), log_cstr("trick", "a=b"),
        log_mask("key", STR("0123456789")));
    assert_string_equal(written(&f),
                        "2026-01-01 10:34:56.123 +08:00 warn  key.near_end account=wx-main "
                        "days=7 why=\"not \\\"renewed\\\"\" "
                        "empty=\"\" trick=\"a=b\" key=01***89\n");
    end(&f);
}

/* One event stays one line, whatever is in it, and a terminal is not told anything. */
static void test_escaping(void **state)
{
    (void)state;
    static const struct {
        const char *value, *json;
    } rows[] = {
        { "a\nb\r\tc", "\"a\\nb\\r\\tc\"" }, { "\x1b[31m", "\"\\u001b[31m\"" },
        { "\x7f", "\"\\u007f\"" },           { "\xc2\x9b", "\"\\u009b\"" },
        { "a\\\"b", "\"a\\\\\\\"b\"" },      { "元\xff\xc3", "\"元\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "\x01", "\"\\u0001\"" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (int json = 0; json < 2; json++) {
            struct fixture f;
            begin(&f, LOG_INFO, json);
            LOG(f.log, LOG_WARN, "e", log_cstr("k", rows[i].value));
            const char *line = written(&f);
            check_row(strchr(line, '\n') == line + strlen(line) - 1, rows[i].json);
            for (const char *p = line; p[1]; p++)
                check_row((unsigned char)*p >= ' ' && *p != 0x7f, rows[i].json);
            if (json)
                check_row(strstr(line, rows[i].json), rows[i].json);
            end(&f);
        }
    }
}

static void test_secrets(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, LOG_INFO, true);
    log_secret(f.log, STR("MARKER-one"));
    log_secret(f.log, STR("MARKER-one-and-more"));
    log_secret(f.log, STR("one-and-more-overlapping"));
    log_secret(f.log, STR("quote\"in\"it"));
    log_secret(f.log, STR("short")); /* too short to be one */
    log_secret(f.log, STR("-----BEGIN-----\nfirst-line-of-key\nlast-line-of-key\n"));
    static const struct {
        const char *value, *shown;
    } rows[] = {
        { "MARKER-one", "***" },
        { "xMARKER-oney", "x***y" },
        { "MARKER-one-and-more!", "***!" },
        { "MARKER-one-and-more-overlapping.", "***." },
        { "MARKER-oneMARKER-one", "******" },
        { "MARKER-on", "MARKER-on" },
        { "first-line-of-key and last-line-of-key", "*** and ***" },
        { "-----BEGIN-----\nfirst-line-of-key\nlast-line-of-key\n", "***" },
        { "a quote\"in\"it b", "a *** b" },
        { "short", "short" },
        { "MMARKER-one", "M***" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char expected[128];
        snprintf(expected, sizeof(expected), "\"v\":\"%s\",", rows[i].shown);
        LOG(f.log, LOG_WARN, "e", log_cstr("v", rows[i].value),
            log_mask("m", str_of(rows[i].value)));
        const char *line = written(&f);
        check_row(strstr(line, expected), rows[i].value);
        check_row(!strstr(line, "MARKER-one"), rows[i].value);
    }

    /* A long value is cut after the secret across the cut was found, and never inside a character.
     */
    for (size_t pad = 2030; pad < 2060; pad++) {
        char value[4000];
        memset(value, 'x', pad);
        snprintf(value + pad, sizeof(value) - pad,
                 "MARKER-one元元元元元元元元元元元元元元元元元元元元元元元元元元元元元元元元");
        LOG(f.log, LOG_WARN, "e", log_cstr("v", value));
        const char *line = written(&f);
        assert_null(strstr(line, "MARK"));
        assert_null(strstr(line, "\xef\xbf\xbd"));
        assert_non_null(strstr(line, "…\"}"));
    }
    end(&f);
}

static void test_masked(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(0);
    assert_str(log_masked(a, STR("abcdefgh")), "ab***gh");
    assert_str(log_masked(a, STR("abcdefg")), "***");
    assert_str(log_masked(a, STR("")), "***");
    assert_str(log_masked(a, STR_NONE), "***");
    assert_str(log_masked(a, STR("上海市浦东新区世纪大道")), "上海***大道");
    assert_str(log_masked(a, STR("\xff\xfe\xff\xfe\xff\xfe\xff\xfe")), "\xff\xfe***\xff\xfe");
}

static void test_levels_and_buffering(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, LOG_INFO, true);
    LOG(f.log, LOG_DEBUG, "hidden");
    LOG(f.log, LOG_INFO, "first");
    LOG(f.log, LOG_INFO, "second");
    assert_string_equal(written(&f), "");
    LOG(f.log, LOG_WARN, "third");
    const char *all = written(&f);
    assert_null(strstr(all, "hidden"));
    assert_true(strstr(all, "first") < strstr(all, "second"));
    assert_true(strstr(all, "second") < strstr(all, "third"));

    LOG(f.log, LOG_INFO, "flushed");
    log_flush(f.log);
    assert_non_null(strstr(written(&f), "flushed"));

    log_set_level(f.log, LOG_DEBUG);
    LOG(f.log, LOG_DEBUG, "by_itself"); /* written out by the log's own thread */
    struct pollfd readable = { .fd = f.pipe[0], .events = POLLIN };
    assert_int_equal(poll(&readable, 1, 5000), 1);
    assert_non_null(strstr(written(&f), "by_itself"));

    LOG(f.log, LOG_INFO, "last");
    log_free(f.log);
    assert_non_null(strstr(written(&f), "last"));
    close(f.pipe[0]);
    close(f.pipe[1]);

    log_write(NULL, LOG_ERROR, "nobody", NULL);
    log_flush(NULL);
    log_set_level(NULL, LOG_INFO);
    log_secret(NULL, STR("0123456789"));
    log_free(NULL);
}

static void *write_lines(void *arg)
{
    for (int i = 0; i < 200; i++)
        LOG(arg, i % 10 ? LOG_INFO : LOG_WARN, "line", log_int("i", i));
    return NULL;
}

/* Lines of several threads come whole. */
static void test_threads(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    struct log *log = log_new(fileno(file), LOG_INFO, true);
    pthread_t thread[4];
    for (size_t i = 0; i < COUNT(thread); i++)
        assert_int_equal(pthread_create(&thread[i], NULL, write_lines, log), 0);
    for (size_t i = 0; i < COUNT(thread); i++)
        pthread_join(thread[i], NULL);
    log_free(log);

    rewind(file);
    char line[300];
    int lines = 0;
    while (fgets(line, sizeof(line), file)) {
        assert_true(str_starts(str_of(line), STR("{\"time\":\"2")));
        assert_true(str_ends(str_of(line), STR("}\n")));
        lines++;
    }
    assert_int_equal(lines, 800);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),     cmocka_unit_test(test_readable),
        cmocka_unit_test(test_escaping), cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_masked),   cmocka_unit_test(test_levels_and_buffering),
        cmocka_unit_test(test_threads),
    };
    return RUN_TESTS(tests);
}
