/*
 * authority_password.c
 *		Passwords of users: kept as SCRAM secrets, compared, never shown.
 */
#include "postgres.h"

#include "change/change.h"
#include "fmgr.h"
#include "libpq/crypt.h"
#include "procedure/procedure_sql.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(amoro_meta_password_secret);
PG_FUNCTION_INFO_V1(amoro_meta_verify_user);

#define LONGEST_PASSWORD 1024
/* Of a secret that somebody brings: each comparison costs so much, and cannot be interrupted. */
#define MOST_ITERATIONS 1000000

static void
refuse_password(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid password"),
			 errdetail_internal("%s", detail)));
}

/*
 * amoro_meta_password_secret(password) returns the secret to be kept of a password; one that is such a secret already
 * is returned as it is.
 */
Datum
amoro_meta_password_secret(PG_FUNCTION_ARGS)
{
	char	   *password = text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (*password == '\0')
		refuse_password("It is empty.");
	if (strlen(password) > LONGEST_PASSWORD)
		refuse_password("It is longer than " CppAsString2(LONGEST_PASSWORD) " bytes.");
	switch (get_password_type(password))
	{
		case PASSWORD_TYPE_PLAINTEXT:
			PG_RETURN_TEXT_P(cstring_to_text(encrypt_password(PASSWORD_TYPE_SCRAM_SHA_256, "", password)));
		case PASSWORD_TYPE_SCRAM_SHA_256:
			/* SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey> */
			if (strtol(strchr(password, '$') + 1, NULL, 10) > MOST_ITERATIONS)
				refuse_password("It is a secret of more than " CppAsString2(MOST_ITERATIONS) " iterations.");
			PG_RETURN_TEXT_P(cstring_to_text(password));
		default:
			refuse_password("It is an MD5 hash.");
	}
	PG_RETURN_NULL();
}

/* A secret that takes as long to compare with as a real one; made once in a backend. */
static const char *
secret_of_nobody(void)
{
	static char *secret = NULL;

	if (secret == NULL)
		secret = MemoryContextStrdup(TopMemoryContext, encrypt_password(PASSWORD_TYPE_SCRAM_SHA_256, "", "nobody"));
	return secret;
}

/* The secret of the user as it is committed by now, in the memory of the caller; NULL when no password is to fit. */
static char *
current_secret(const char *user_name)
{
	SqlArgument name = sql_text(user_name);
	MemoryContext caller = CurrentMemoryContext;
	char	   *secret = NULL;

	SPI_connect();
	if (procedure_sql_latest("SELECT password_secret FROM amoro_meta.principal"
							 " WHERE principal_name = $1 AND principal_kind = 'user' AND NOT disabled", 1, &name) > 0 &&
		!result_is_null(0, 1))
		secret = MemoryContextStrdup(caller, result_text(0, 1));
	SPI_finish();
	return secret;
}

/*
 * amoro_meta_verify_user(user, password) tells whether the password is that of the user now.
 */
Datum
amoro_meta_verify_user(PG_FUNCTION_ARGS)
{
	char	   *user_name;
	char	   *password;
	char	   *secret;
	const char *reason;
	bool		fits;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", PG_ARGISNULL(0) ? "user_name" : "password")));
	metadata_require_primary();
	user_name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	password = text_to_cstring(PG_GETARG_TEXT_PP(1));
	if (strlen(password) > LONGEST_PASSWORD)
		PG_RETURN_BOOL(false);
	secret = current_secret(user_name);
	fits = plain_crypt_verify(user_name, secret ? secret : secret_of_nobody(), password, &reason) == STATUS_OK;
	PG_RETURN_BOOL(fits && secret != NULL);
}
