/* test_disk.c -- the disk is full, or read-only: merchants and channel hear 5xx and nothing is
 * acknowledged, /readyz says why, and once there is room again everything goes on, by itself where
 * the database can still be trusted.
 *
 * On the fault VFS always; with a real full disk and the real binary where this user may mount one.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fault_vfs.h"
#include "life.h"

#define LIVES   40
#define DISK_MB 24
#define LOOKS   3000

static struct place place;
static struct life lives[LIVES];

static void new_lives(void)
{
    static const struct path *const paths[] = { &path_pay, &path_close, &path_switch,
                                                &path_cancel };
    for (int i = 0; i < LIVES; i++)
        lives[i] = (struct life) { .path = paths[i % 4], .n = i };
}

/* The next life until one meets an error. */
static void live_until_refused(struct place *p, size_t from)
{
    p->errors_are_the_end = true;
    for (size_t i = from; i < LIVES; i++)
        if (life_drive(p, &lives[i]) != DRIVE_OVER)
            return;
    complaint(p, "nobody was refused");
}

static void not_ready(struct place *p, const char *why)
{
    ARENA_AUTO a = arena_new(4096);
    struct str answer;
    int status = place_ready(p, a, &answer);
    if (status != 503 || !memmem(answer.p, answer.n, why, strlen(why)))
        complaint(p, "/readyz says %d " STR_FMT, status, STR_ARG(answer));
}

static void wait_ready(struct place *p)
{
    for (int i = 0; i < LOOKS; i++) {
        ARENA_AUTO a = arena_new(4096);
        struct str answer;
        if (place_ready(p, a, &answer) == 200)
            return;
        poll(NULL, 0, 5); /* leaves the processor to the store between two looks */
    }
    complaint(p, "it does not become ready again");
}

/* The channel tells of a payment while nothing can be written. */
static void a_callback_is_not_acknowledged(struct place *p, struct life *l)
{
    ARENA_AUTO a = arena_new(4096);
    struct sandbox_trade t;
    p->hold_callbacks = false;
    for (int i = 0; i < LOOKS; i++) {
        assert_int_equal(sandbox_trade_get(p->sandbox, str_of(l->pay_no), a, &t), ERR_OK);
        if (t.callbacks_sent >= 2)
            break;
        place_move_clock(p, 1000);
        poll(NULL, 0, 2); /* leaves the processor to the callback between two looks */
    }
    if (t.callbacks_sent < 2 || t.callbacks_acknowledged)
        complaint(p, "%d of %d callbacks were acknowledged", t.callbacks_acknowledged,
                  t.callbacks_sent);
}

static void live_on(struct place *p)
{
    p->errors_are_the_end = false;
    for (size_t i = 0; i < LIVES; i++)
        if (!lives[i].over && life_drive(p, &lives[i]) != DRIVE_OVER)
            complaint(p, "nobody answers");
    audit_rest(p, lives, LIVES, 1);
    if (p->complaint[0])
        fail_msg("%s", p->complaint);
}

/* One has paid, and the channel has not told us yet. */
static void one_has_paid(struct place *p)
{
    ARENA_AUTO a = arena_new(16384);
    struct life *l = &lives[0];
    p->hold_callbacks = true;
    while (l->stage == 0 && l->path->drive(p, l, a) == DRIVE_AGAIN)
        place_move_clock(p, 200);
    assert_int_equal(l->stage, 2);
}

/* ---- on the fault VFS ---- */

static void break_inside(struct place *p, enum fault_kind kind, const char *why)
{
    new_lives();
    place_begin(p);
    fault_reset();
    place_start_inside(p);
    assert_int_equal(life_drive(p, &lives[1]), DRIVE_OVER);
    fault_arm(FAULT_WRITE | FAULT_TRUNCATE, 1, kind, true);
    live_until_refused(p, 2);
    not_ready(p, why);
    audit_acknowledged(p, lives, LIVES);
    fault_disarm();
}

static void full_and_room_again(void **state)
{
    (void)state;
    struct place *p = &place;
    break_inside(p, FAULT_FULL, "full");
    wait_ready(p); /* without hand work, and without starting again */
    live_on(p);
}

/* A COMMIT on it proves nothing: the process ends and whoever watches it starts another. */
static void read_only_and_started_again(void **state)
{
    (void)state;
    struct place *p = &place;
    break_inside(p, FAULT_READ_ONLY, "start again");
    if (!store_failed(p->inside->store))
        complaint(p, "it would not start again by itself");
    place_stop_inside(p);
    place_start_inside(p);
    live_on(p);
}

/* ---- for real ---- */

static void fill(const struct place *p)
{
    char path[96], block[4096] = { 1 };
    snprintf(path, sizeof path, "%.64s/filler", p->dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, block, sizeof block) > 0)
        ;
    close(fd);
}

static void make_room(const struct place *p)
{
    char path[96];
    snprintf(path, sizeof path, "%.64s/filler", p->dir);
    assert_int_equal(unlink(path), 0);
}

static void a_real_disk_is_full(void **state)
{
    (void)state;
    struct place *p = &place;
    if (!p->mounted)
        skip();
    new_lives();
    place_begin(p);
    place_start(p, NULL);
    one_has_paid(p);
    assert_int_equal(life_drive(p, &lives[1]), DRIVE_OVER);
    fill(p);
    live_until_refused(p, 2);
    not_ready(p, "full");
    a_callback_is_not_acknowledged(p, &lives[0]);
    audit_acknowledged(p, lives, LIVES);
    make_room(p);
    wait_ready(p);
    live_on(p);
}

/* Also a power failure on a full disk is no reason for hand work. */
static void killed_on_a_full_disk(void **state)
{
    (void)state;
    struct place *p = &place;
    if (!p->mounted)
        skip();
    new_lives();
    place_begin(p);
    place_start(p, NULL);
    fill(p);
    live_until_refused(p, 0);
    place_kill(p);
    audit_acknowledged(p, lives, LIVES);
    make_room(p);
    place_move_clock(p, 2 * 60 * 1000);
    place_start(p, NULL);
    live_on(p);
}

/* The database's file is read-only when the process starts: it says so and ends, and starts once
 * that is over. */
static void read_only_at_the_start(void **state)
{
    (void)state;
    struct place *p = &place;
    struct err_info info = { 0 };
    char file[96];
    if (!p->mounted)
        skip();
    new_lives();
    place_begin(p);
    place_start(p, NULL);
    assert_int_equal(life_drive(p, &lives[0]), DRIVE_OVER);
    place_kill(p);
    snprintf(file, sizeof file, "%.64s/run.db", p->dir);
    assert_int_equal(mount(file, file, NULL, MS_BIND, NULL), 0);
    assert_int_equal(mount(NULL, file, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
    enum err e = bench_server_start(&p->bench, &p->server, &info);
    if (e)
        p->server.pid = 0;
    umount(file);
    assert_int_not_equal(e, ERR_OK);
    assert_non_null(strstr(info.text, "read")); /* "readonly", "read-only" */
    place_move_clock(p, 2 * 60 * 1000);
    place_start(p, NULL);
    live_on(p);
}

static int make(void **state)
{
    (void)state;
    fault_vfs_register();
    return place_make(&place, "disk", DISK_MB) ? 0 : -1;
}
static int drop(void **state)
{
    (void)state;
    place_drop(&place);
    return 0;
}
static int end(void **state)
{
    (void)state;
    fault_disarm();
    place_end(&place);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(full_and_room_again, end),
        cmocka_unit_test_teardown(read_only_and_started_again, end),
        cmocka_unit_test_teardown(a_real_disk_is_full, end),
        cmocka_unit_test_teardown(killed_on_a_full_disk, end),
        cmocka_unit_test_teardown(read_only_at_the_start, end),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("crash/disk", tests, make, drop);
}
