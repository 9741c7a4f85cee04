/* json_out.c -- the JSON printer. Its misuse (an end without a begin, too deep) is our own mistake
 * and asserted. */
#include "base/json.h"

#include <assert.h>

void json_out_init(struct json_out *o, struct buf *buf)
{
    *o = (struct json_out) { .buf = buf };
}

/* Before a value or a key: the comma, unless this is the first or stands behind a key. */
static void separate(struct json_out *o)
{
    if (o->comma[o->depth])
        buf_add_char(o->buf, ',');
    o->comma[o->depth] = true;
}

static void begin(struct json_out *o, char bracket)
{
    separate(o);
    buf_add_char(o->buf, bracket);
    assert(o->depth < JSON_DEPTH_MAX);
    o->comma[++o->depth] = false;
}

static void end(struct json_out *o, char bracket)
{
    assert(o->depth > 0);
    o->depth--;
    buf_add_char(o->buf, bracket);
}

void json_begin_object(struct json_out *o)
{
    begin(o, '{');
}

void json_end_object(struct json_out *o)
{
    end(o, '}');
}

void json_begin_array(struct json_out *o)
{
    begin(o, '[');
}

void json_end_array(struct json_out *o)
{
    end(o, ']');
}

static void escape(struct buf *b, unsigned code)
{
    static const char digits[] = "0123456789abcdef";
    switch (code) {
    case '"':
        buf_add(b, "\\\"", 2);
        break;
    case '\\':
        buf_add(b, "\\\\", 2);
        break;
    case '\n':
        buf_add(b, "\\n", 2);
        break;
    case '\r':
        buf_add(b, "\\r", 2);
        break;
    case '\t':
        buf_add(b, "\\t", 2);
        break;
    default:
        buf_add(b, (char[]) { '\\', 'u', '0', '0', digits[code >> 4], digits[code & 15] }, 6);
    }
}

/* Plain runs are copied whole. Control characters are C0, DEL and C1: a terminal obeys all of them.
 */
void json_escape(struct buf *b, struct str s)
{
    size_t plain = 0; /* start of the run that is not written yet */
    size_t i = 0;
    while (i < s.n) {
        unsigned char c = (unsigned char)s.p[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            i++;
            continue;
        }
        size_t length = str_utf8_length(s.p + i, s.n - i);
        bool c1 = length == 2 && c == 0xc2 && (unsigned char)s.p[i + 1] < 0xa0;
        if (length > 1 && !c1) {
            i += length;
            continue;
        }

        buf_add(b, s.p + plain, i - plain);
        if (length == 0)
            buf_add(b, "\xef\xbf\xbd", 3);
        else
            escape(b, c1 ? (unsigned char)s.p[i + 1] : c);
        i += length ? length : 1;
        plain = i;
    }
    buf_add(b, s.p + plain, i - plain);
}

static void quoted(struct json_out *o, struct str s)
{
    buf_add_char(o->buf, '"');
    json_escape(o->buf, s);
    buf_add_char(o->buf, '"');
}

void json_key(struct json_out *o, const char *key)
{
    separate(o);
    quoted(o, str_of(key));
    buf_add_char(o->buf, ':');
    o->comma[o->depth] = false; /* the value follows at once */
}

void json_str(struct json_out *o, struct str s)
{
    separate(o);
    quoted(o, s);
}

void json_put_int(struct json_out *o, int64_t v)
{
    separate(o);
    buf_add_int(o->buf, v);
}

void json_put_bool(struct json_out *o, bool v)
{
    separate(o);
    buf_add_str(o->buf, v ? STR("true") : STR("false"));
}

void json_put_null(struct json_out *o)
{
    separate(o);
    buf_add_str(o->buf, STR("null"));
}

void json_put_raw(struct json_out *o, struct str json)
{
    separate(o);
    buf_add_str(o->buf, json);
}

void json_kv_str(struct json_out *o, const char *key, struct str s)
{
    if (!s.p)
        return;
    json_key(o, key);
    json_str(o, s);
}

void json_kv_int(struct json_out *o, const char *key, int64_t v)
{
    json_key(o, key);
    json_put_int(o, v);
}

void json_kv_bool(struct json_out *o, const char *key, bool v)
{
    json_key(o, key);
    json_put_bool(o, v);
}
