/* The configuration reader: a whole file, every complaint with its line, secrets, defaults, and the
 * description. */
#include "../check.h"

#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cfg.h"

struct listener {
    struct str address;
    int64_t port, timeout_ms;
};
struct account {
    struct str name, key;
    bool retired;
};
struct config {
    int environment;
    int64_t max_body, max_amount, count;
    bool proxy;
    struct listener api, ops;
    struct cfg_str_list roles;
    struct cfg_list accounts;
};

static const struct cfg_key listener_keys[] = {
    { "address", CFG_STR, offsetof(struct listener, address), .fallback = "127.0.0.1",
      .help = "Where to listen" },
    { "port", CFG_INT, offsetof(struct listener, port), .flags = CFG_MANDATORY, .min = 1,
      .max = 65535, .help = "Port" },
    { "timeout", CFG_MS, offsetof(struct listener, timeout_ms), .fallback = "10s",
      .flags = CFG_RELOADABLE, .min = 100, .max = 60000, .help = "Patience" },
    { NULL },
};
static const struct cfg_key account_keys[] = {
    { "name", CFG_STR, offsetof(struct account, name), .flags = CFG_MANDATORY, .help = "Name" },
    { "key", CFG_STR, offsetof(struct account, key), .flags = CFG_SECRET, .help = "API key" },
    { "retired", CFG_BOOL, offsetof(struct account, retired), .help = "No new attempts" },
    { NULL },
};
static const struct cfg_key keys[] = {
    { "environment", CFG_ENUM, offsetof(struct config, environment),
      .choices = "dev|test|production", .fallback = "dev", .help = "Where we are" },
    { "max_body", CFG_BYTES, offsetof(struct config, max_body), .fallback = "64KB",
      .help = "Largest body" },
    { "max_amount", CFG_FEN, offsetof(struct config, max_amount), .fallback = "500000", .min = 1,
      .max = 1000000000, .help = "Largest amount" },
    { "count", CFG_INT, offsetof(struct config, count), .help = "A number" },
    { "proxy", CFG_BOOL, offsetof(struct config, proxy), .fallback = "true",
      .help = "Behind a proxy" },
    { "api", CFG_SECTION, offsetof(struct config, api), .section = listener_keys, .help = "API" },
    { "ops", CFG_SECTION, offsetof(struct config, ops), .section = listener_keys,
      .help = "Operations" },
    { "roles", CFG_STR_LIST, offsetof(struct config, roles), .fallback = "api, notify",
      .help = "Roles" },
    { "accounts", CFG_LIST, offsetof(struct config, accounts), .section = account_keys,
      .element_size = sizeof(struct account), .help = "Accounts" },
    { NULL },
};

static enum err decrypt(void *ctx, struct arena *a, struct str enc, struct str *ret,
                        struct err_info *info)
{
    (void)ctx;
    if (!str_eq(enc, STR("enc:good")))
        return err_set(info, ERR_DENIED, "wrong master key");
    *ret = str_dup(a, STR("decrypted"));
    return ERR_OK;
}

static enum err read_text(struct arena *a, const char *text, struct config *ret,
                          struct err_info *info)
{
    struct cfg_source src = { .name = STR("fenpay.yaml"),
                              .text = str_of(text),
                              .base_dir = STR("/nonexistent"),
                              .decrypt = decrypt };
    return cfg_read(a, &src, keys, ret, sizeof(*ret), info);
}

static const struct account *account(const struct config *c, size_t i)
{
    assert_true(i < c->accounts.count);
    return (const struct account *)c->accounts.items + i;
}

static void test_whole_file(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(0);
    struct err_info info = { 0 };
    struct config c;
    setenv("FENPAY_TEST_KEY", "from the environment", 1);
    const char *text = "# a comment\n"
                       "environment: production\n"
                       "max_body: 16MB\n"
                       "max_amount: 100\n"
                       "count: -5\n"
                       "proxy: false\n"
                       "api: { address: 0.0.0.0, port: 8080, timeout: 250ms }\n"
                       "roles: [api, \"relay\"]\n"
                       "accounts:\n"
                       "  - name: wx-main\n"
                       "    key: env:FENPAY_TEST_KEY\n"
                       "  - name: 微信\n"
                       "    key: enc:good\n"
                       "    retired: true\n"
                       "  - { name: plain, key: literal }\n";
    if (read_text(a, text, &c, &info))
        fail_msg("%s", info.text);
    assert_int_equal(c.environment, 2);
    assert_int_equal(c.max_body, 16 << 20);
    assert_int_equal(c.max_amount, 100);
    assert_int_equal(c.count, -5);
    assert_false(c.proxy);
    assert_str(c.api.address, "0.0.0.0");
    assert_int_equal(c.api.port, 8080);
    assert_int_equal(c.api.timeout_ms, 250);
    assert_str(c.ops.address,
               "127.0.0.1"); /* the section is absent: defaults, and no mandatory keys */
    assert_int_equal(c.ops.port, 0);
    assert_int_equal(c.ops.timeout_ms, 10000);
    assert_int_equal(c.roles.count, 2);
    assert_str(c.roles.items[1], "relay");
    assert_int_equal(c.accounts.count, 3);
    assert_str(account(&c, 0)->key, "from the environment");
    assert_false(account(&c, 0)->retired);
    assert_str(account(&c, 1)->name, "微信");
    assert_str(account(&c, 1)->key, "decrypted");
    assert_true(account(&c, 1)->retired);
    assert_str(account(&c, 2)->key, "literal");
}

static void test_defaults(void **state)
{
    (void)state;
    static const char *const empties[] = { NULL,    "",   "# nothing\n",
                                           "---\n", "{}", "accounts:\nroles: [api, notify]\n" };
    for (size_t i = 0; i < COUNT(empties); i++) {
        ARENA_AUTO a = arena_new(0);
        struct err_info info = { 0 };
        struct config c;
        memset(&c, 0xff, sizeof(c));
        enum err e = empties[i] ? read_text(a, empties[i], &c, &info)
                                : cfg_defaults(a, keys, &c, sizeof(c), &info);
        check_row(e == ERR_OK, info.text);
        assert_int_equal(c.environment, 0);
        assert_int_equal(c.max_body, 65536);
        assert_int_equal(c.count, 0);
        assert_true(c.proxy);
        assert_int_equal(c.api.timeout_ms, 10000);
        assert_int_equal(c.roles.count, 2);
        assert_str(c.roles.items[0], "api");
        assert_str(c.roles.items[1], "notify");
        assert_int_equal(c.accounts.count, 0);
    }
}

static void test_complaints(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error, *field;
    } rows[] = {
        { "\n\ncuont: 1", "fenpay.yaml:3: unknown key 'cuont' (did you mean 'count'?)", "cuont" },
        { "api:\n  prot: 1", "fenpay.yaml:2: unknown key 'prot' (did you mean 'port'?)",
          "api.prot" },
        { "zebra: 1", "fenpay.yaml:1: unknown key 'zebra'", "zebra" },
        { "api:\n  address: x\n", "fenpay.yaml:2: 'api.port' is missing", "api.port" },
        { "api:\n", "fenpay.yaml:1: 'api.port' is missing", "api.port" },
        { "accounts:\n- name: a\n- retired: true\n", "fenpay.yaml:3: 'accounts[1].name' is missing",
          "accounts[1].name" },
        { "count: 1\nproxy: true\ncount: 2\n", "fenpay.yaml:3: 'count' stands here a second time",
          "count" },
        { "count: many", "fenpay.yaml:1: 'count': 'many' is not a whole number", "count" },
        { "count: 1.5", "fenpay.yaml:1: 'count': '1.5' is not a whole number", "count" },
        { "count: 5s", "fenpay.yaml:1: 'count': '5s' is not a whole number", "count" },
        { "count:", "fenpay.yaml:1: 'count' has no value", "count" },
        { "count: [1]", "fenpay.yaml:1: 'count' wants a single value, not a list", "count" },
        { "count: 9223372036854775808",
          "fenpay.yaml:1: 'count': '9223372036854775808' is not a whole number", "count" },
        { "max_amount: 1.00", "fenpay.yaml:1: 'max_amount': '1.00' is not a whole number of fen",
          "max_amount" },
        { "max_amount: 0", "fenpay.yaml:1: 'max_amount': '0' is not between 1 and 1000000000",
          "max_amount" },
        { "max_body: 5kb",
          "fenpay.yaml:1: 'max_body': '5kb' is not a size such as 4096, 64KB, 16MB or 1GB",
          "max_body" },
        { "max_body: 9999999999GB",
          "fenpay.yaml:1: 'max_body': '9999999999GB' is not a size such as 4096, 64KB, 16MB or 1GB",
          "max_body" },
        { "api: {port: 70000}", "fenpay.yaml:1: 'api.port': '70000' is not between 1 and 65535",
          "api.port" },
        { "api: {port: 1, timeout: 5}",
          "fenpay.yaml:1: 'api.timeout': '5' is not a time such as 250ms, 5s, 15m, 2h or 30d",
          "api.timeout" },
        { "api: {port: 1, timeout: 2m}",
          "fenpay.yaml:1: 'api.timeout': '2m' is not between 100ms and 60000ms", "api.timeout" },
        { "max_body: -1KB",
          "fenpay.yaml:1: 'max_body': '-1KB' is not a size such as 4096, 64KB, 16MB or 1GB",
          "max_body" },
        { "accounts:\n- name: a\n  key: file:/dev/null\n",
          "fenpay.yaml:3: 'accounts[0].key': '/dev/null' is not a file of at most 65536 bytes",
          "accounts[0].key" },
        { "proxy: yes", "fenpay.yaml:1: 'proxy': 'yes' is neither true nor false", "proxy" },
        { "environment: prodution",
          "fenpay.yaml:1: 'environment': 'prodution' is none of dev|test|production (did you mean "
          "'production'?)",
          "environment" },
        { "api: 8080", "fenpay.yaml:1: 'api' wants a mapping, not a single value", "api" },
        { "accounts: {name: a}", "fenpay.yaml:1: 'accounts' wants a list, not a mapping",
          "accounts" },
        { "accounts: [a]", "fenpay.yaml:1: 'accounts[0]' wants a mapping, not a single value",
          "accounts[0]" },
        { "roles: api", "fenpay.yaml:1: 'roles' wants a list, not a single value", "roles" },
        { "roles: [api, [x]]", "fenpay.yaml:1: 'roles[1]' wants a single value, not a list",
          "roles[1]" },
        { "roles: &x [*x]", "fenpay.yaml:1: 'roles[0]' wants a single value, not a list",
          "roles[0]" },
        { "- a\n- b\n", "fenpay.yaml:1: the file must be a mapping of keys, not a list", "" },
        { "[a]: 1", "fenpay.yaml:1: a key must be a single word", "" },
        { "count: 1\n---\ncount: 2\n", "fenpay.yaml:3: a second document; there must be one", "" },
        { "accounts:\n- name: \"a\\0b\"\n", "fenpay.yaml:2: 'accounts[0].name': holds a NUL",
          "accounts[0].name" },
        { "accounts:\n- name: a\n  key: env:FENPAY_NO_SUCH\n",
          "fenpay.yaml:3: 'accounts[0].key': the environment variable 'FENPAY_NO_SUCH' is not set",
          "accounts[0].key" },
        { "accounts:\n- name: a\n  key: file:absent\n",
          "fenpay.yaml:3: 'accounts[0].key': cannot open '/nonexistent/absent': No such file or "
          "directory",
          "accounts[0].key" },
        { "accounts:\n- name: a\n  key: enc:bad\n",
          "fenpay.yaml:3: 'accounts[0].key': cannot be decrypted: wrong master key",
          "accounts[0].key" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ARENA_AUTO a = arena_new(0);
        struct err_info info = { 0 };
        struct config c = { .count = 4242 };
        assert_int_equal(read_text(a, rows[i].text, &c, &info), ERR_INVALID);
        assert_string_equal(info.text, rows[i].error);
        assert_string_equal(info.field, rows[i].field);
        assert_int_equal(c.count, 4242);
    }
}

static void test_syntax(void **state)
{
    (void)state;
    static const char *const rows[] = { "count: [1",       "a: b: c",  "\tcount: 1",   "count: 'x",
                                        "count: *nowhere", "\xff\xfe", "count: 1\n}\n" };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ARENA_AUTO a = arena_new(0);
        struct err_info info = { 0 };
        struct config c;
        check_row(read_text(a, rows[i], &c, &info) == ERR_INVALID, rows[i]);
        check_row(str_starts(str_of(info.text), STR("fenpay.yaml:")), rows[i]);
    }
}

static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t max_body;
    } rows[] = { { "max_body: 0", 0 },
                 { "max_body: 4096", 4096 },
                 { "max_body: 2GB", 2LL << 30 },
                 { "max_body: \"64KB\"", 65536 },
                 { "max_body: &x 1KB\n", 1024 } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ARENA_AUTO a = arena_new(0);
        struct config c;
        check_row(read_text(a, rows[i].text, &c, NULL) == ERR_OK, rows[i].text);
        check_row(c.max_body == rows[i].max_body, rows[i].text);
    }
    static const struct {
        const char *text;
        int64_t ms;
    } times[] = { { "1s", 1000 }, { "999ms", 999 }, { "1m", 60000 } };
    for (size_t i = 0; i < COUNT(times); i++) {
        ARENA_AUTO a = arena_new(0);
        struct config c;
        char text[64];
        snprintf(text, sizeof(text), "api: {port: 1, timeout: %s}", times[i].text);
        check_row(read_text(a, text, &c, NULL) == ERR_OK, times[i].text);
        check_row(c.api.timeout_ms == times[i].ms, times[i].text);
    }
}

static void test_secret_files(void **state)
{
    (void)state;
    static const struct {
        const char *content, *value; /* NULL: refused */
    } rows[] = { { "s3cret", "s3cret" },
                 { "s3cret\n", "s3cret" },
                 { "s3cret\r\n", "s3cret" },
                 { "two\nlines\n\n", "two\nlines\n" },
                 { "", NULL },
                 { "\n", NULL } };
    char dir[] = "/tmp/fenpay-cfg-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/key", dir);
    for (size_t i = 0; i < COUNT(rows); i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(rows[i].content, f);
        fclose(f);
        ARENA_AUTO a = arena_new(0);
        struct config c;
        struct cfg_source src = { .name = STR("x"),
                                  .text = STR("accounts: [{name: file:key, key: file:key}]"),
                                  .base_dir = str_of(dir) };
        check_row(cfg_read(a, &src, keys, &c, sizeof(c), NULL) ==
                      (rows[i].value ? ERR_OK : ERR_INVALID),
                  rows[i].content);
        if (!rows[i].value)
            continue;
        assert_str(account(&c, 0)->key, rows[i].value);
        assert_str(account(&c, 0)->name, "file:key"); /* only secrets are fetched */
    }
    unlink(path);
    rmdir(dir);
}

/* Whatever goes wrong with a secret, the message does not hold it. */
static void test_secret_not_told(void **state)
{
    (void)state;
    static const char *const rows[] = { "accounts: [{name: a, key: \"MARKER\\0\"}]",
                                        "accounts: [{name: a, key: [MARKER]}]",
                                        "accounts: [{name: a, key: enc:MARKER}]" };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ARENA_AUTO a = arena_new(0);
        struct err_info info = { 0 };
        struct config c;
        check_row(read_text(a, rows[i], &c, &info) == ERR_INVALID, rows[i]);
        check_row(!strstr(info.text, "MARKER"), rows[i]);
    }
}

static const char *as_is(const char *en)
{
    return en;
}

static void test_describe(void **state)
{
    (void)state;
    static const struct {
        bool markdown;
        const char *line;
    } rows[] = {
        { false, "environment: one of dev, test, production, default dev\n    Where we are\n" },
        { false, "api.port: integer, 1 to 65535, mandatory\n    Port\n" },
        { false, "api.timeout: time (ms, s, m, h, d), 100 to 60000 ms, default 10s, reloadable\n" },
        { false, "accounts[].key: text, secret\n    API key\n" },
        { true, "| key | type | default | | meaning |\n" },
        { true, "| `accounts[].name` | text |  | mandatory | Name |\n" },
        { true, "| `max_body` | size (KB, MB, GB) | `64KB` |  | Largest body |\n" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        BUF_AUTO b;
        buf_init(&b, 1 << 16);
        cfg_describe(keys, rows[i].markdown, as_is, &b);
        buf_add_char(&b, '\0');
        assert_true(buf_ok(&b));
        check_row(strstr(b.p, rows[i].line), rows[i].line);
    }
}

/* What only others find wrong is told with its place: the key's own line, or that of the mapping
 * that lacks it. */
static void test_blame(void **state)
{
    (void)state;
    static const char text[] = "\xEF\xBB\xBF# a byte order mark is no part of the text\n"
                               "api:\n"
                               "  address: 0.0.0.0\n"
                               "  port: 80\n"
                               "ops: { port: 81 }\n"
                               "accounts:\n"
                               "  - name: one\n"
                               "    key: x\n"
                               "  - name: two\n";
    static const struct {
        const char *prefix, *field, *said;
    } rows[] = {
        { "api", "address", "fenpay.yaml:3: api.address: bad" },
        { "", "address", "fenpay.yaml:3: api.address: bad" },
        { "api", "timeout", "fenpay.yaml:3: api.timeout: bad" },
        { "accounts[0]", "key", "fenpay.yaml:8: accounts[0].key: bad" },
        { "accounts[1]", "key", "fenpay.yaml:9: accounts[1].key: bad" },
        { "accounts[1]", "nothing", "fenpay.yaml:9: accounts[1]: bad" },
        { "elsewhere", "nothing", "elsewhere.nothing: bad" },
    };
    ARENA_AUTO a = arena_new(0);
    struct config c;
    struct cfg_marks marks;
    struct cfg_source src = { .name = STR("fenpay.yaml"), .text = str_of(text), .marks = &marks };
    assert_int_equal(cfg_read(a, &src, keys, &c, sizeof c, NULL), ERR_OK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct err_info info = { 0 };
        enum err e = err_field(&info, ERR_INVALID, rows[i].field, "bad");
        cfg_blame(&marks, rows[i].prefix, &info);
        assert_int_equal(info.err, e);
        assert_string_equal(info.text, rows[i].said);
    }
}

static void test_fixed_changes(void **state)
{
    (void)state;
    static const char old[] = "api: { port: 80, timeout: 1s }\nops: { port: 81 }\ncount: 1\n";
    static const struct {
        const char *text, *said;
    } rows[] = {
        { old, "" },
        { "api: { port: 80, timeout: 2s }\nops: { port: 81 }\ncount: 1\n", "" }, /* reloadable */
        { "api: { port: 8, timeout: 1s }\nops: { port: 81 }\ncount: 2\n", "count, api.port" },
        { "api: { port: 80 }\nops: { port: 81, address: '::1' }\ncount: 1\nproxy: false\n"
          "environment: test\nroles: [api]\n",
          "environment, proxy, ops.address, roles" },
    };
    ARENA_AUTO a = arena_new(0);
    struct config x, y;
    assert_int_equal(read_text(a, old, &x, NULL), ERR_OK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        BUF_AUTO b;
        buf_init(&b, 4096);
        assert_int_equal(read_text(a, rows[i].text, &y, NULL), ERR_OK);
        cfg_print_fixed_changes(keys, &x, &y, &b);
        check_row(str_eq(buf_str(&b), str_of(rows[i].said)), rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_file),      cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_complaints),      cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_values),          cmocka_unit_test(test_secret_files),
        cmocka_unit_test(test_secret_not_told), cmocka_unit_test(test_describe),
        cmocka_unit_test(test_blame),           cmocka_unit_test(test_fixed_changes),
    };
    return RUN_TESTS(tests);
}
