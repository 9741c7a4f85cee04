/* test_url.c -- which URLs we take, and which addresses count as public. Literal addresses only: no
 * name server is asked. */
#include "net_testing.h"

#include "net/client.h"

static void test_good(void **state)
{
    (void)state;
    static const struct {
        const char *text, *scheme, *host, *path;
        int port;
    } cases[] = {
        { "https://example.com", "https", "example.com", "/", 443 },
        { "http://example.com/", "http", "example.com", "/", 80 },
        { "HTTPS://example.com:8443/a/b?c=d&e=%20", "HTTPS", "example.com", "/a/b?c=d&e=%20",
          8443 },
        { "http://127.0.0.1:1/x", "http", "127.0.0.1", "/x", 1 },
        { "http://[::1]:8080/x", "http", "::1", "/x", 8080 },
        { "https://[2001:db8::1]/", "https", "2001:db8::1", "/", 443 },
        { "https://a-b_c.d/e:f@g", "https", "a-b_c.d", "/e:f@g", 443 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct url url;
        struct err_info info = { 0 };
        if (url_parse(str_of(cases[i].text), &url, &info))
            fail_msg("%s: %s", cases[i].text, info.text);
        assert_true(str_eq(url.scheme, str_of(cases[i].scheme)));
        assert_true(str_eq(url.host, str_of(cases[i].host)));
        assert_true(str_eq(url.path_query, str_of(cases[i].path)));
        assert_int_equal(url.port, cases[i].port);
    }
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "example.com",
        "/path",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https:/x",
        "https://",
        "https:///x",
        "https://:80/",
        "https://user@example.com/",
        "https://user:pw@example.com/",
        "https://example.com:/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:+80/",
        "https://example.com:080/",
        "https://example.com:80x/",
        "https://exa mple.com/",
        "https://example.com/a b",
        "https://example.com/\n",
        "https://example.com/\x7f",
        "https://example.com/#f",
        "https://example.com#f",
        "https://example.com?x",
        "https://example.com\\@evil/",
        "https://[::1",
        "https://[::1]x/",
        "https://[::1]x:80/",
        "https://[zz]/",
        "https://[1.2.3.4]/",
        "https://::1/",
        "https://a%2fb/",
        "https://ex\xc3\xa4mple/",
        "https://.example.com/",
        "https://-example.com/",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct url url = { .port = 77 };
        struct err_info info = { 0 };
        if (url_parse(str_of(cases[i]), &url, &info) != ERR_INVALID)
            fail_msg("%s was taken", cases[i]);
        assert_int_equal(url.port, 77);
        assert_string_equal(info.field, "url");
    }
    struct url url;
    assert_int_equal(url_parse((struct str) { "https://a\0b/", 12 }, &url, NULL), ERR_INVALID);
}

static void test_public(void **state)
{
    (void)state;
    static const char *const public[] = {
        "1.1.1.1",        "8.8.8.8",          "100.63.255.255",  "100.128.0.0",
        "172.15.0.1",     "172.32.0.1",       "223.255.255.255", "2606:4700:4700::1111",
        "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2400:3200::1"
    };
    static const char *const special[] = {
        "127.0.0.1",
        "127.1",
        "127.255.255.254",
        "0.0.0.0",
        "0",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "192.0.0.8",
        "192.0.2.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "3fff::1",
        "5f00::1",
        "4000::1",
    };
    ARENA_AUTO a = arena_new(4096);
    struct str address = STR_NONE;
    for (size_t i = 0; i < sizeof(public) / sizeof(public[0]); i++)
        if (resolve_public(str_of(public[i]), true, a, &address, NULL))
            fail_msg("%s was denied", public[i]);
    for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++) {
        address = STR_NONE;
        if (resolve_public(str_of(special[i]), true, a, &address, NULL) != ERR_DENIED || address.p)
            fail_msg("%s was let through", special[i]);
        if (resolve_public(str_of(special[i]), false, a, &address, NULL) || !address.p)
            fail_msg("%s was not resolved", special[i]);
    }
    assert_int_equal(resolve_public(STR("127.1"), false, a, &address, NULL), ERR_OK);
    assert_true(str_eq(address, STR("127.0.0.1")));
    assert_int_equal(resolve_public(STR(""), true, a, &address, NULL), ERR_INVALID);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_public),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
