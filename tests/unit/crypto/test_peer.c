/* The openssl command line as an independent peer: it makes keys and certificates of every form,
 * signs what we verify and verifies what we sign. Everything lives in a temporary folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/arena.h"
#include "crypto/rsa.h"
#include "crypto/x509.h"
#include "support/shared.h"

static char dir[] = "/tmp/fenpay-crypto-XXXXXX";

/* The exit status of a command run in the temporary folder, quietly and without a terminal to ask.
 */
static int run(const char *command)
{
    ARENA_AUTO a = arena_new(1024);
    return system(str_printf(a, "cd %s && { %s; } >out 2>err </dev/null", dir, command).p);
}

static struct str slurp(struct arena *a, const char *name)
{
    struct str s = file_read(a, str_printf(a, "%s/%s", dir, name).p);
    assert_non_null(s.p);
    return s;
}

static void spill(struct arena *a, const char *name, struct str s)
{
    FILE *f = fopen(str_printf(a, "%s/%s", dir, name).p, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(s.p, 1, s.n, f), s.n);
    assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
    (void)state;
    return !mkdtemp(dir) || run("openssl genrsa -out key.pem 2048") ||
           run("openssl rsa -in key.pem -traditional -out key-pkcs1.pem") ||
           run("openssl rsa -in key.pem -pubout -out public.pem") ||
           run("openssl rsa -in key.pem -RSAPublicKey_out -out public-pkcs1.pem") ||
           run("printf 'GET\\n/v3/certificates\\n' >message") ||
           run("openssl dgst -sha256 -sign key.pem -out signature message");
}

static int teardown(void **state)
{
    (void)state;
    return run("rm -r -- \"$PWD\"");
}

static void every_form_of_the_key_reads(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct rsa_key *k[4];
    assert_int_equal(rsa_private_from_pem(slurp(a, "key.pem"), &k[0], NULL), ERR_OK);
    assert_int_equal(rsa_private_from_pem(slurp(a, "key-pkcs1.pem"), &k[1], NULL), ERR_OK);
    assert_int_equal(rsa_public_from_pem(slurp(a, "public.pem"), &k[2], NULL), ERR_OK);
    assert_int_equal(rsa_public_from_pem(slurp(a, "public-pkcs1.pem"), &k[3], NULL), ERR_OK);
    assert_true(str_starts(slurp(a, "key-pkcs1.pem"), STR("-----BEGIN RSA PRIVATE KEY")));
    assert_true(str_starts(slurp(a, "public-pkcs1.pem"), STR("-----BEGIN RSA PUBLIC KEY")));

    struct str signature;
    for (int i = 0; i < 4; i++) {
        assert_true(rsa_same_public(k[0], k[i]));
        assert_int_equal(rsa_verify(k[i], slurp(a, "message"), slurp(a, "signature")), ERR_OK);
        assert_int_equal(rsa_verify(k[i], STR("GET\n"), slurp(a, "signature")), ERR_DENIED);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rsa_sign(k[i], slurp(a, "message"), a, &signature, NULL), ERR_OK);
        assert_true(str_eq(signature, slurp(a, "signature")));
    }
    assert_true(str_eq(rsa_private_pem(a, k[1]), slurp(a, "key.pem")));
    assert_true(str_eq(rsa_public_pem(a, k[3]), slurp(a, "public.pem")));
    for (int i = 0; i < 4; i++)
        rsa_unref(k[i]);
}

static void windows_line_ends_and_words_before_the_block_are_fine(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct rsa_key *key;
    assert_int_equal(run("{ echo 'Bag Attributes'; sed 's/$/\\r/' key.pem; } >key-crlf.pem"), 0);
    assert_int_equal(rsa_private_from_pem(slurp(a, "key-crlf.pem"), &key, NULL), ERR_OK);
    rsa_unref(key);
}

static void what_we_sign_openssl_verifies(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct rsa_key *key;
    struct str signature;
    assert_int_equal(rsa_generate(2048, &key, NULL), ERR_OK);
    assert_int_equal(rsa_sign(key, STR("支付\n"), a, &signature, NULL), ERR_OK);
    spill(a, "our-public.pem", rsa_public_pem(a, key));
    spill(a, "our-message", STR("支付\n"));
    spill(a, "our-signature", signature);
    rsa_unref(key);

    const char *verify = "openssl dgst -sha256 -verify our-public.pem -signature our-signature ";
    assert_int_equal(run(str_printf(a, "%s our-message", verify).p), 0);
    assert_int_not_equal(run(str_printf(a, "%s message", verify).p), 0);
}

static void oaep_both_ways_and_nothing_else(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct rsa_key *key;
    struct str cipher, plain;
    assert_int_equal(rsa_private_from_pem(slurp(a, "key.pem"), &key, NULL), ERR_OK);
    const char *encrypt =
        "openssl pkeyutl -encrypt -pubin -inkey public.pem -in message -out cipher "
        "-pkeyopt rsa_padding_mode:";

    assert_int_equal(run(str_printf(a, "%soaep", encrypt).p), 0);
    assert_int_equal(rsa_oaep_decrypt(key, slurp(a, "cipher"), a, &plain, NULL), ERR_OK);
    assert_true(str_eq(plain, slurp(a, "message")));

    assert_int_equal(run(str_printf(a, "%spkcs1", encrypt).p), 0);
    assert_int_equal(rsa_oaep_decrypt(key, slurp(a, "cipher"), a, &plain, NULL), ERR_DENIED);
    assert_int_equal(run(str_printf(a, "%soaep -pkeyopt rsa_oaep_md:sha256", encrypt).p), 0);
    assert_int_equal(rsa_oaep_decrypt(key, slurp(a, "cipher"), a, &plain, NULL), ERR_DENIED);

    assert_int_equal(rsa_oaep_encrypt(key, STR("6214830000000000"), a, &cipher, NULL), ERR_OK);
    spill(a, "our-cipher", cipher);
    assert_int_equal(run("openssl pkeyutl -decrypt -inkey key.pem -in our-cipher -out our-plain "
                         "-pkeyopt rsa_padding_mode:oaep"),
                     0);
    assert_true(str_eq(slurp(a, "our-plain"), STR("6214830000000000")));
    rsa_unref(key);
}

/* Other paddings and digests with the right key and message are not what the channel promised. */
static void other_signature_schemes_are_denied(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct rsa_key *key;
    assert_int_equal(rsa_public_from_pem(slurp(a, "public.pem"), &key, NULL), ERR_OK);
    const char *schemes[] = { "-sha1", "-sha512", "-sha256 -sigopt rsa_padding_mode:pss" };
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        assert_int_equal(
            run(str_printf(a, "openssl dgst %s -sign key.pem -out other message", schemes[i]).p),
            0);
        assert_int_equal(rsa_verify(key, slurp(a, "message"), slurp(a, "other")), ERR_DENIED);
    }
    rsa_unref(key);
}

static void refuse(struct arena *a, const char *command, const char *file, bool private,
                   const char *word)
{
    struct err_info info = { 0 };
    struct rsa_key *key = NULL;
    assert_int_equal(run(command), 0);
    enum err e = private ? rsa_private_from_pem(slurp(a, file), &key, &info)
                         : rsa_public_from_pem(slurp(a, file), &key, &info);
    assert_int_equal(e, ERR_INVALID);
    assert_null(key);
    if (!strstr(info.text, word))
        fail_msg("%s: '%s' does not say '%s'", command, info.text, word);
}

static void foreign_keys_are_refused(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    refuse(a, "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec.pem",
           "ec.pem", true, "not an RSA key");
    refuse(a, "openssl pkey -in ec.pem -pubout -out ec-public.pem", "ec-public.pem", false,
           "not an RSA key");
    refuse(a, "openssl ecparam -name prime256v1 -genkey -noout -out ec-sec1.pem", "ec-sec1.pem",
           true, "EC PRIVATE KEY");
    refuse(a, "openssl genpkey -algorithm RSA-PSS -out pss.pem", "pss.pem", true, "not an RSA key");
    refuse(a, "openssl pkcs8 -topk8 -in key.pem -passout pass:x -out locked.pem", "locked.pem",
           true, "passphrase");
    refuse(a, "openssl rsa -in key.pem -traditional -aes128 -passout pass:x -out locked-pkcs1.pem",
           "locked-pkcs1.pem", true, "passphrase");
    refuse(a, "openssl genrsa -out short.pem 768", "short.pem", true, "768 bits");
}

/* Exponent 1 would make every message its own signature; a modulus with one wrong character never
 * verifies anything. */
static void broken_keys_are_refused(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    refuse(a,
           "{ printf 'asn1=SEQUENCE:k\\n[k]\\nn=INTEGER:0x'; openssl rsa -in key.pem -noout "
           "-modulus | "
           "sed s/Modulus=//; echo e=INTEGER:1; } >e1.conf && "
           "openssl asn1parse -genconf e1.conf -noout -out e1.der && "
           "{ echo '-----BEGIN RSA PUBLIC KEY-----'; openssl base64 -in e1.der; "
           "echo '-----END RSA PUBLIC KEY-----'; } >e1.pem",
           "e1.pem", false, "broken");
    refuse(a,
           "awk 'NR == 3 { $0 = (/^A/ ? \"B\" : \"A\") substr($0, 2) } 1' key-pkcs1.pem >typo.pem",
           "typo.pem", true, "broken");
}

static void certificates_read_as_openssl_made_them(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct rsa_key *key;
    struct certificate c;
    assert_int_equal(rsa_public_from_pem(slurp(a, "public.pem"), &key, NULL), ERR_OK);
    assert_int_equal(run("openssl req -x509 -new -utf8 -key key.pem -sha256 -days 30 -out rsa.crt "
                         "-set_serial 0x0C4AEF34B89340881BB2B25226393DC2E47F094B "
                         "-subj '/C=CN/O=腾讯/CN=Tenpay.com sign'"),
                     0);
    assert_int_equal(certificate_from_pem(slurp(a, "rsa.crt"), a, &c, NULL), ERR_OK);
    assert_true(str_eq(c.serial, STR("0C4AEF34B89340881BB2B25226393DC2E47F094B")));
    assert_true(str_eq(c.subject, STR("C = CN, O = 腾讯, CN = Tenpay.com sign")));
    assert_int_equal(c.not_after_ms - c.not_before_ms, 30LL * 86400 * 1000);
    assert_true(rsa_same_public(c.key, key));
    assert_int_equal(rsa_verify(c.key, slurp(a, "message"), slurp(a, "signature")), ERR_OK);
    certificate_done(&c);
    rsa_unref(key);

    assert_int_equal(run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
                         "-keyout ec.key -out ec.crt -subj /CN=ec"),
                     0);
    assert_int_equal(certificate_from_pem(slurp(a, "ec.crt"), a, &c, NULL), ERR_OK);
    assert_null(c.key);
    assert_true(str_eq(c.subject, STR("CN = ec")));
    certificate_done(&c);
}

static void openssl_accepts_the_certificates_we_make(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct rsa_key *key;
    struct str pem;
    assert_int_equal(rsa_private_from_pem(slurp(a, "key.pem"), &key, NULL), ERR_OK);
    assert_int_equal(certificate_make(key, STR("Fenpay 沙箱"), STR("0C4AEF34"), 1767225600000,
                                      1924992000000, a, &pem, NULL),
                     ERR_OK);
    rsa_unref(key);
    spill(a, "ours.crt", pem);
    assert_int_equal(run("openssl verify -CAfile ours.crt -attime 1800000000 ours.crt"), 0);
    assert_int_equal(run("openssl x509 -in ours.crt -noout -serial -startdate -enddate"), 0);
    assert_true(str_eq(slurp(a, "out"), STR("serial=0C4AEF34\nnotBefore=Jan  1 00:00:00 2026 GMT\n"
                                            "notAfter=Jan  1 00:00:00 2031 GMT\n")));
    assert_int_equal(run("openssl x509 -in ours.crt -noout -pubkey"), 0);
    assert_true(str_eq(slurp(a, "out"), slurp(a, "public.pem")));
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_the_key_reads),
        cmocka_unit_test(windows_line_ends_and_words_before_the_block_are_fine),
        cmocka_unit_test(what_we_sign_openssl_verifies),
        cmocka_unit_test(oaep_both_ways_and_nothing_else),
        cmocka_unit_test(other_signature_schemes_are_denied),
        cmocka_unit_test(foreign_keys_are_refused),
        cmocka_unit_test(broken_keys_are_refused),
        cmocka_unit_test(certificates_read_as_openssl_made_them),
        cmocka_unit_test(openssl_accepts_the_certificates_we_make),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
