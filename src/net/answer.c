/* answer.c -- answers: collected in the request's arena by whoever has the request, given to the
 * library on its loop. */
#include "net/server_int.h"

#include <assert.h>

#include "base/arena.h"

void http_answer_header(struct http_request *req, struct str name, struct str value)
{
    assert(!req->answered && head_is_token(name));
    struct request_header *h = arena_one(req->arena, struct request_header);
    h->name = str_cstr(req->arena, name);
    h->value = str_cstr(req->arena, value);
    h->next = req->answer_headers;
    req->answer_headers = h;
}

void http_answer_retry_after(struct http_request *req, int seconds)
{
    http_answer_header(req, STR("Retry-After"), str_printf(req->arena, "%d", seconds));
}

void http_answer(struct http_request *req, int status, const char *content_type, struct str body)
{
    assert(!req->answered && status >= 200 && status <= 599);
    req->answered = true;
    req->status = status;
    req->content_type = content_type ? str_cstr(req->arena, str_of(content_type)) : NULL;
    req->answer = body.n > 0 ? str_dup(req->arena, body) : STR_NONE;
}

void http_drop(struct http_request *req)
{
    assert(!req->answered && req->phase != REQUEST_WORKING);
    req->cut = true;
    conn_tear(req->conn);
}

static void add_header(struct http_request *req, struct MHD_Response *response, const char *name,
                       const char *value)
{
    if (MHD_add_response_header(response, name, value) != MHD_YES)
        LOG(req->server->env->log, LOG_ERROR, "http.answer_header", log_cstr("name", name),
            log_cstr("error", "the value cannot stand in a header"));
}

bool answer_send(struct http_request *req)
{
    assert(req->answered);
    struct http_server *s = req->server;
    req->phase = REQUEST_SENDING;
    conn_move(req->conn, CONN_SENDING, req->loop->now_us);

    /* The body stays in the arena, which ends after the library is done with the answer. */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        req->answer.n, (void *)(uintptr_t)req->answer.p, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return false;
    if (req->content_type)
        add_header(req, response, "Content-Type", req->content_type);
    add_header(req, response, "X-Request-Id", req->id.p);
    for (struct request_header *h = req->answer_headers; h; h = h->next)
        add_header(req, response, h->name, h->value);
    if (req->close_after || atomic_load_explicit(&s->quiescing, memory_order_relaxed))
        add_header(req, response, "Connection", "close");
    enum MHD_Result taken = MHD_queue_response(req->mhd, (unsigned)req->status, response);
    MHD_destroy_response(response);
    return taken == MHD_YES;
}
