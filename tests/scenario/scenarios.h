/* scenarios.h -- the table of scenarios. */
#ifndef FENPAY_SCENARIOS_H
#define FENPAY_SCENARIOS_H

#include "app/story.h"

extern const struct story scenarios[];
extern const size_t scenario_count;

#endif
