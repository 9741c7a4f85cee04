/* The tables have both languages with the same conversions, and every text that was printed with
 * one of their formats is found again by it. */
#include "../check.h"

#include "base/arena.h"
#include "base/buf.h"
#include "words/words.h"

typedef void pair_check(const struct words_pair *pair);

static void each_pair(pair_check *check)
{
    size_t n = 0;
    for (size_t t = 0; words_tables[t]; t++)
        for (const struct words_pair *pair = words_tables[t]; pair->en; pair++, n++)
            check(pair);
    assert_true(n > 500);
}

/* The next conversion at or behind `*p`, which then points behind it. */
static struct str next_conversion(const char **p)
{
    const char *start = strchr(*p, '%');
    if (!start)
        return STR_NONE;
    *p = start + 1 + strcspn(start + 1, "sduimtxc");
    assert_true(**p);
    ++*p;
    return (struct str) { start, (size_t)(*p - start) };
}

static void check_pair(const struct words_pair *pair)
{
    const char *en = pair->en, *zh = pair->zh;
    bool chinese = false;
    check_row(*en && zh && *zh, pair->en);
    for (const char *p = zh; *p; p++)
        chinese = chinese || (unsigned char)*p >= 0x80;
    check_row(chinese, pair->en);
    check_row(str_is_utf8(str_of(zh)), pair->en);
    for (struct str a, b; (a = next_conversion(&en)).p;) {
        b = next_conversion(&zh);
        bool ours = str_eq(b, STR("%t")) && (str_eq(a, STR("%s")) || str_eq(a, STR("%m")));
        check_row(ours || str_eq(a, b), pair->en);
    }
    check_row(!next_conversion(&zh).p, pair->en);
}

static void both_languages_with_the_same_conversions(void **state)
{
    (void)state;
    each_pair(check_pair);
}

static void check_once(const struct words_pair *pair)
{
    size_t n = 0;
    for (size_t t = 0; words_tables[t]; t++)
        for (const struct words_pair *other = words_tables[t]; other->en; other++)
            n += strcmp(pair->en, other->en) == 0;
    check_row(n == 1, pair->en);
}

static void no_text_stands_there_twice(void **state)
{
    (void)state;
    each_pair(check_once);
}

/* The format with a sample at each conversion; samples are no texts of ours. */
static struct str printed(struct arena *a, const char *format)
{
    static const char *const texts[] = { "x1.y", "/p/q.r", "Zed-9", "w_v", "k2", "j3" };
    static const char *const numbers[] = { "17", "-4", "903", "5", "66", "7" };
    struct buf b;
    size_t n = 0;
    buf_init_arena(&b, a, 4096);
    for (const char *rest = format; *format; format = rest) {
        struct str conversion = next_conversion(&rest);
        if (!conversion.p)
            rest += strlen(rest);
        buf_add(&b, format, (size_t)((conversion.p ? conversion.p : rest) - format));
        if (conversion.p) {
            bool text = strchr("smtx", conversion.p[conversion.n - 1]);
            buf_add_str(&b, str_of(text ? texts[n % COUNT(texts)] : numbers[n % COUNT(numbers)]));
            n++;
        }
    }
    return buf_str(&b);
}

/* Of conversions without anything between them the last takes all; then both only show that the
 * format is found. */
static void check_said(const struct words_pair *pair)
{
    ARENA_AUTO a = arena_new(8192);
    struct str en = printed(a, pair->en), zh = printed(a, pair->zh);
    struct str got = words_said(a, LANGUAGE_CHINESE, en);
    if (!str_eq(got, zh))
        print_error(STR_FMT "\n" STR_FMT "\n", STR_ARG(got), STR_ARG(zh));
    check_row(str_eq(got, zh), pair->en);
    assert_str(words_said(a, LANGUAGE_ENGLISH, en), str_cstr(a, en));
}

static void a_printed_text_is_found_by_its_format(void **state)
{
    (void)state;
    each_pair(check_said);
}

static void texts_in_texts(void **state)
{
    (void)state;
    static const struct {
        const char *en, *zh;
    } rows[] = {
        { "fenpay.yaml:3: unknown key 'lisen' (did you mean 'listen'?)",
          "fenpay.yaml:3: 未知的配置项 'lisen'（是否想写 'listen'？）" },
        { "fenpay.yaml:7: accounts[0].wechat.mchid: must be 1 to 32 digits",
          "fenpay.yaml:7: accounts[0].wechat.mchid: 必须是 1 到 32 位数字" },
        { "a b.yaml:4: 'x y': '9: 1' is not a whole number", "a b.yaml:4: 'x y': '9: 1' 不是整数" },
        { "f.yaml:4: notify.public_url: the callback address made of it must be https",
          "f.yaml:4: notify.public_url: 由它生成的回调地址必须是 https" },
        { "f.yaml: cannot be read (No such file or directory)",
          "f.yaml：无法读取（没有那个文件或目录）" },
        { "PAID stated by callback: 87.99 CNY (8799 fen); transaction 42; the payment is PAYING: "
          "88.00 CNY (8800 fen)",
          "PAID，来自回调：87.99 CNY (8799 fen)；渠道交易号 42；支付单状态 PAYING：88.00 CNY "
          "(8800 fen)" },
        { "SHUT stated by bill; the payment is SUCCESS", "SHUT，来自账单；支付单状态 SUCCESS" },
        { "incident PAID_TWICE, open: 1.00 CNY (100 fen) paid for order O1, which payment P1 had "
          "settled",
          "异常单 PAID_TWICE（未处理）：实付 1.00 CNY (100 fen)，订单 O1 已由支付单 P1 结算" },
        { "incident PAID_TWICE resolved: ignore; by operator:amy; because: done; expired",
          "异常单 PAID_TWICE 已处理：ignore；由 operator:amy；原因：done; expired" },
        { "R_DONE stated by query; the refund is INIT, 1.00 CNY (100 fen); stated are 2.00 CNY "
          "(200 "
          "fen) of payment P1; of another merchant or app",
          "R_DONE，来自查单；退款单状态 INIT，1.00 CNY (100 fen)；所述为 2.00 CNY (200 "
          "fen)，支付单 "
          "P1；属于另一个商户或应用" },
        { "payment PAYING -> SUCCESS (callback)", "支付单 PAYING -> SUCCESS（回调）" },
        { "query at account wx: refused; final PARAM_ERROR",
          "查单（账户 wx）：被拒绝；final PARAM_ERROR" },
        /* data stays as it is, even where it looks like a text of ours */
        { "no account named 'database'", "没有名为 'database' 的账户" },
        { "keys: not an address", "keys: 不是网址" },
        { "no text of ours", "no text of ours" },
        { "", "" },
        { ": ", ": " },
        { "; ", "；" },
    };
    ARENA_AUTO a = arena_new(8192);
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_str(words_said(a, LANGUAGE_CHINESE, str_of(rows[i].en)), rows[i].zh);
    assert_string_equal(words_of(LANGUAGE_CHINESE, "%zu accounts"), "%zu 个账户");
    assert_string_equal(words_of(LANGUAGE_ENGLISH, "%zu accounts"), "%zu accounts");
    assert_string_equal(words_of(LANGUAGE_CHINESE, "what?"), "what?");
}

/* Deep and long texts come back in a bounded time. */
static void hostile_texts(void **state)
{
    (void)state;
    static const char *const parts[] = {
        ": ", "; ", "a; ", "'%s' is '", "no answer: ", "%", "\xff"
    };
    for (size_t i = 0; i < COUNT(parts); i++) {
        ARENA_AUTO a = arena_new(65536);
        BUF_AUTO b;
        buf_init(&b, 65536);
        while (b.n < 16000)
            buf_add_str(&b, str_of(parts[i]));
        assert_true(words_said(a, LANGUAGE_CHINESE, buf_str(&b)).n > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_languages_with_the_same_conversions),
        cmocka_unit_test(no_text_stands_there_twice),
        cmocka_unit_test(a_printed_text_is_found_by_its_format),
        cmocka_unit_test(texts_in_texts),
        cmocka_unit_test(hostile_texts),
    };
    return RUN_TESTS(tests);
}
