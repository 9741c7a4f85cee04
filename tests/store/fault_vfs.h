/* fault_vfs.h -- a SQLite VFS named "fault" that stands on the default one and breaks things on
 * purpose.
 *
 * Faults: the n-th operation of chosen kinds fails, once or from then on. Power cut: at the n-th
 * such operation the world ends for the process (everything fails), and fault_power_restore then
 * leaves in the files what a disk would still have: all that was synced, and of the writes since
 * the last sync of each file nothing, some sectors, or a prefix with a torn end. A SIGKILL cannot
 * show a missing fsync, because the page cache survives it. One plan at a time, for the whole
 * process; thread-safe. */
#ifndef FENPAY_FAULT_VFS_H
#define FENPAY_FAULT_VFS_H

#include <stdbool.h>
#include <stdint.h>

#define FAULT_VFS "fault"

enum fault_op {
    FAULT_OPEN = 1,
    FAULT_READ = 2,
    FAULT_WRITE = 4,
    FAULT_SYNC = 8,
    FAULT_TRUNCATE = 16,
    FAULT_SIZE = 32,
    FAULT_DELETE = 64,
    FAULT_ANY = 127,
};
enum fault_kind { FAULT_IOERR, FAULT_FULL, FAULT_READ_ONLY, FAULT_POWER };

void fault_vfs_register(void);
/* No plan; every file is what it is now, durably. */
void fault_reset(void);
/* The n-th (from 1) operation of `ops` from now on fails. */
void fault_arm(unsigned ops, int nth, enum fault_kind kind, bool sticky);
/* Before opening: a disk that does not promise to spare the neighbours of what it overwrites. */
void fault_careless_disk(bool careless);
void fault_disarm(void);       /* files stay watched */
int fault_fired(void);         /* how many operations failed */
int fault_count(unsigned ops); /* how many were done since the plan began */

enum power_loss { POWER_DROP, POWER_SOME, POWER_TORN };
#define POWER_LOSSES 3
/* After every connection was closed. */
void fault_power_restore(enum power_loss loss, uint64_t seed);

#endif
