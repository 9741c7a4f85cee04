/* server_int.h -- what the files of the HTTP server share: listener, loop, connection, request.
 *
 * Everything of a loop, its connections and its requests belongs to the loop's thread. Two
 * exceptions: a request handed to a worker is the worker's until it comes back through
 * http_finish_later, and `finished` is pushed to by anybody. */
#ifndef FENPAY_SERVER_INT_H
#define FENPAY_SERVER_INT_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "net/head.h"
#include "net/router.h"
#include "net/server.h"

struct conn;
struct loop;
struct workers;
struct peers;
struct server_metrics;

/* What a connection is doing; each state but BUSY and SHUT has its time limit. */
enum conn_state {
    CONN_FRESH,   /* accepted: the first request's headers must be complete in header_ms */
    CONN_IDLE,    /* between requests */
    CONN_HEAD,    /* request line seen, headers incomplete */
    CONN_BODY,    /* headers seen, body incomplete */
    CONN_BUSY,    /* the handler, a worker or a suspension has it: they have limits of their own */
    CONN_SENDING, /* the answer is being written */
    CONN_SHUT,    /* we have shut the socket down, the library has not noticed yet */
};
#define CONN_STATES (CONN_SHUT + 1)

struct conn {
    struct list node; /* in loop->conns[state], oldest first */
    enum conn_state state;
    int64_t since_us;
    uint64_t acked;      /* bytes the peer had taken when SENDING was last looked at */
    size_t body_bytes;   /* of the request under way */
    unsigned body_looks; /* how often BODY was looked at */
    struct loop *loop;
    int fd;
    struct in6_addr address;         /* v4 mapped */
    char peer[INET6_ADDRSTRLEN + 1]; /* as text, without port */
    struct http_request *req;        /* under way; NULL: none */
};

struct loop {
    struct http_server *server;
    unsigned index;
    pthread_t thread;
    bool started;
    struct MHD_Daemon *mhd;
    int mhd_fd;              /* its epoll set */
    int listen_fd;           /* -1 after quiesce */
    int wake_fd;             /* eventfd */
    int64_t now_us;          /* when this turn began */
    int64_t accept_after_us; /* out of descriptors: pause */
    int64_t logged_us;       /* the library's last message that we let through */
    struct list conns[CONN_STATES];
    struct conn *arriving;            /* inside MHD_add_connection */
    struct list suspended, deadlines; /* requests */
    int64_t deadline_us;              /* not later than the earliest of them */
    unsigned active;                  /* requests that exist */
    bool turn_open;                   /* turn_begin was called */
    struct rand rand;                 /* request ids */
    struct arena *spare[32];          /* emptied arenas: idle connections hold none */
    unsigned spare_count;

    _Atomic(struct http_request *)
        finished; /* stack of requests to finish; whoever makes it non-empty writes wake_fd */
};

struct http_server {
    struct env *env;
    struct http_server_options o; /* defaults filled in */
    char *name, *cert, *key;
    int port;
    struct router *router;
    struct server_metrics *metrics;
    struct workers *workers; /* NULL without blocking routes */
    struct peers *peers;     /* NULL when per_address_max is off */
    unsigned loop_count;
    struct loop *loops;
    atomic_uint connections;
    atomic_size_t body_bytes; /* of all requests that exist */
    atomic_uint posting;      /* threads inside http_finish_later */
    atomic_bool quiescing, stopping;
    _Atomic int64_t stop_by_us;
};

enum request_phase {
    REQUEST_HEAD,     /* the request line is there */
    REQUEST_BODY,     /* the headers are there and in order */
    REQUEST_HANDLING, /* the handler runs */
    REQUEST_SUSPENDED,
    REQUEST_WORKING, /* a worker has it; suspended as far as the library knows */
    REQUEST_SENDING, /* the answer was given to the library */
};

struct request_query {
    struct str key, value;
};

struct request_done {
    struct request_done *next;
    void (*fn)(struct http_request *req, bool answered, void *arg);
    void *arg;
};

struct request_header {
    struct request_header *next;
    const char *name, *value;
};

/* A refusal that waits for the end of the request, so that the connection can be kept. */
struct refusal {
    int status; /* 0: none */
    const char *code, *text;
};

struct http_request {
    struct conn *conn;
    struct loop *loop;
    struct http_server *server;
    struct MHD_Connection *mhd;
    struct arena *arena;
    enum request_phase phase;

    int64_t received_ms, began_us;
    struct str method, target, path, id, traceparent;
    struct head head;
    const struct route *route; /* NULL: none fits */
    struct route_path route_path;
    struct request_query *query;
    size_t query_count;
    struct buf body;  /* on the heap: it grows without leaving copies behind */
    size_t body_over; /* bytes of a refused body, thrown away */
    struct refusal refusal;
    void *user;

    bool answered, dropped, cut, close_after;
    int status;
    const char *content_type;
    struct str answer;
    struct request_header *answer_headers;
    struct request_done *done;

    struct list suspended_node, deadline_node;
    int64_t deadline_us;
    http_finish *deadline_fn;
    void *deadline_arg;

    http_finish *finish_fn;
    void *finish_arg;
    struct http_request *next_finished;
    atomic_bool finish_queued;
};

/* ---- loop.c ---- */
enum err loop_start(struct loop *l, struct err_info *info);
void loop_wake(struct loop *l);
void loop_free(struct loop *l);
void loop_turn_begin(struct loop *l); /* before a handler or finish function runs */

/* ---- conn.c ---- */
void conn_accept(struct loop *l);
void conn_closed(struct conn *c); /* the library is done with it */
void conn_move(struct conn *c, enum conn_state state, int64_t now_us);
int64_t conn_sweep(
    struct loop *l); /* cuts what is overdue; returns when it must run next, INT64_MAX: never */
void conn_tear(struct conn *c); /* half an answer, before the connection is cut */
void conn_cut_all(struct loop *l, enum conn_state state); /* we are closing */

struct peers *peers_new(unsigned max);
void peers_free(struct peers *p);
bool peers_enter(struct peers *p, const struct in6_addr *address);
void peers_leave(struct peers *p, const struct in6_addr *address);

/* ---- request.c: the library's callbacks and the way to the handler ---- */
void *request_begin(void *loop, const char *target, struct MHD_Connection *mhd);
enum MHD_Result request_continue(void *loop, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *n, void **req);
void request_end(void *loop, struct MHD_Connection *mhd, void **req,
                 enum MHD_RequestTerminationCode code);
void request_refuse(struct http_request *req, int status, const char *code, const char *text);
/* The refusal of a request that comes too slowly, as it stands on the wire: the library takes no
 * answer before a request is complete. */
struct str request_time_out(struct http_request *req);
void request_run_handler(struct http_request *req);

/* ---- finish.c: suspended requests ---- */
void finish_run(struct loop *l); /* what was handed to http_finish_later */
void finish_deadlines(struct loop *l);
void finish_drop(struct loop *l);             /* answers 503 to everything suspended by a handler */
void finish_forget(struct http_request *req); /* leaves all lists */
void finish_send_suspended(struct http_request *req);

/* ---- answer.c ---- */
/* Gives the answer to the library; false when it does not take it (the connection is lost then). */
bool answer_send(struct http_request *req);

/* ---- workers.c ---- */
struct workers *workers_new(const char *name, unsigned threads, unsigned queue_max);
bool workers_reserve(struct workers *w); /* a place; false: full */
void workers_submit(struct workers *w, struct http_request *req);
void workers_free(struct workers *w); /* joins; nothing may be queued any more */

/* ---- server_metrics.c ---- */
struct server_metrics *server_metrics_new(struct http_server *s);
void server_metrics_free(struct server_metrics *m);
void server_metrics_request(struct server_metrics *m, const struct route *route, int status,
                            int64_t took_us);
void server_metrics_connections(struct server_metrics *m, int change);
void server_metrics_refused(struct server_metrics *m, const char *reason);

#endif
