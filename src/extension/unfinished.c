/*
 * unfinished.c
 *		Bodies of functions that are still being written; each goes when the real one lands.
 */
#include "postgres.h"

#include "procedure.h"

__attribute__((weak)) void
procedure_install_callbacks(void)
{
}

__attribute__((weak)) LeaseTime
procedure_run_due(void)
{
	return 0;
}

__attribute__((weak)) bool
procedure_prune(void)
{
	return false;
}
