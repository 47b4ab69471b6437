/*
 * explorer_job.c
 *		What one question of a round is about.
 */
#include "explorer/explorer_job.h"

#include "utils/memutils.h"
#include "wire_text.h"

/* See explorer_round.h. */
Job *
round_add_job(Round *round, JobKind kind, const char *path, const char *name)
{
	Job		   *job = MemoryContextAllocZero(round->context, sizeof(Job));

	job->round = round;
	job->kind = kind;
	job->path = MemoryContextStrdup(round->context, path);
	job->name = MemoryContextStrdup(round->context, name);
	job->sent_path = wire_text_to_send(path, round->context);
	job->sent_name = wire_text_to_send(name, round->context);
	dlist_push_tail(&round->queue, &job->node);
	return job;
}

/* See explorer_job.h. */
void
job_free(Job *job)
{
	pfree(job->path);
	pfree(job->name);
	pfree(job->sent_path);
	pfree(job->sent_name);
	if (job->page_token != NULL)
		pfree(job->page_token);
	if (job->seen != NULL)
		pfree(job->seen);
	pfree(job);
}

/* See explorer_job.h. */
const char *
job_place(const Job *job)
{
	switch (job->kind)
	{
		case JOB_CONFIG:
			return "configuration";
		case JOB_TOKEN:
			return "token";
		case JOB_NAMESPACES:
			return job->path[0] == '\0' ? "namespaces" : psprintf("namespaces in \"%s\"", job->name);
		case JOB_TABLES:
			return psprintf("tables of \"%s\"", job->name);
		case JOB_TABLE:
			return psprintf("table \"%s\"", job->name);
	}
	return "";
}

/* See explorer_job.h. */
char *
job_url(const Job *job)
{
	const RestCatalog *rest = &job->round->rest;

	switch (job->kind)
	{
		case JOB_CONFIG:
			return rest_config_url(rest);
		case JOB_TOKEN:
			return rest->token_uri != NULL ? pstrdup(rest->token_uri) : psprintf("%s/v1/oauth/tokens", rest->uri);
		case JOB_NAMESPACES:
			return rest_namespaces_url(rest, job->sent_path, job->page_token);
		case JOB_TABLES:
			return rest_tables_url(rest, job->sent_path, job->page_token);
		case JOB_TABLE:
			return rest_table_url(rest, job->sent_path, job->sent_name);
	}
	return NULL;
}

/* See explorer_job.h. */
bool
job_may_be_known(const Job *job)
{
	return (job->kind == JOB_TABLES || job->kind == JOB_TABLE) && job->pages == 0 && !job->unconditional;
}
