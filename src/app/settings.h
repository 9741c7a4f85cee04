/* settings.h -- the one table of all settings: what fenpay.yaml may say, from which `fenpay config
 * --describe` and docs/configuration.md are made (settings.c). */
#ifndef FENPAY_SETTINGS_H
#define FENPAY_SETTINGS_H

#include "channel/channel.h"

struct listener_settings {
    struct str listen; /* empty: this listener is off */
    int64_t loops, workers, connections_max, per_address_max;
    int64_t header_ms, body_ms, idle_ms;
    bool behind_proxy;
    struct str tls_cert, tls_key; /* PEM text, usually file: */
    struct str public_url;        /* notify only */
};

struct settings {
    int environment;       /* enum environment */
    struct str name;       /* of the installation: the source of its events */
    struct str master_key; /* 64 hex digits: encrypts secrets in the database and enc: values */
    struct {
        struct str url;
        int64_t cache_bytes, wal_bytes_max;
    } store;
    struct listener_settings api, notify, ops;
    struct {
        int level; /* enum log_level */
        bool json;
    } log;
    struct {
        int64_t expire_ms, expiring_ms, query_stuck_ms, amount_max_fen;
    } payment;
    struct {
        int paid_after_close, paid_twice; /* index into their choices */
        int64_t auto_refund_max_count, auto_refund_max_fen;
        int64_t second_person_fen;
    } incident;
    struct {
        int64_t workers;
        bool private_addresses;
    } webhook;
    struct {
        int64_t rate_per_s, rate_burst;
    } limits;
    struct {
        int64_t workers;
    } job;
    struct cfg_list accounts; /* struct account_config */
    struct cfg_marks marks;   /* where all of it stands; empty when no file was read */
};
extern const struct cfg_key settings_table[];

/* Reads and checks the whole: everything cfg.h promises, and what no single key can know
 * (environments that mix, public listeners without TLS, two accounts of one name, a master key of
 * the wrong length). */
enum err settings_read(struct arena *a, const char *path, struct settings *ret,
                       struct err_info *info);
enum err settings_parse(struct arena *a, struct str name, struct str text, struct str base_dir,
                        struct settings *ret, struct err_info *info);

/* account_open for accounts[i]; what is wrong with it is told with its place in the file. */
enum err settings_account_open(const struct settings *s, size_t i, struct env *env,
                               struct account **ret, struct err_info *info);

/* The next secret, from *at on, whose file is open to others, with its place. False: none
 * left. */
bool settings_open_secret(const struct settings *s, struct arena *a, size_t *at, struct str *ret);

/* The file of a SQLite database, or STR_NONE. */
struct str settings_database_path(const struct settings *s);
/* Makes the folders above the database's file that are missing, for the owner only. */
enum err settings_make_folder(const struct settings *s, struct err_info *info);

#endif
