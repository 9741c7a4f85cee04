/* commands.h -- every subcommand; the table is in main.c, each stands in the file of its name. */
#ifndef FENPAY_COMMANDS_H
#define FENPAY_COMMANDS_H

#include "app/args.h"

#define COMMAND(name) int command_##name(const struct command *self, int argc, char **argv)

COMMAND(serve);
COMMAND(migrate);
COMMAND(sandbox);
COMMAND(demo);
COMMAND(doctor);
COMMAND(explain);
COMMAND(replay);
COMMAND(verify);
COMMAND(caller);
COMMAND(webhook);
COMMAND(incident);
COMMAND(config);
COMMAND(secret);
COMMAND(bench);
COMMAND(sim);

#endif
