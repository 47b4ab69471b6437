/*
 * http_request.c
 *		What libcurl is told of a request: headers, method, URL, whom to trust, and what it must not do.
 */
#include "http/http_transfer.h"

#include "guc.h"

#define USER_AGENT "amoro_meta/" AMORO_META_VERSION

static void
set_blob(CURL *easy, CURLoption option, const char *pem)
{
	struct curl_blob blob;

	if (pem == NULL)
		return;
	blob.data = unconstify(char *, pem);
	blob.len = strlen(pem);
	blob.flags = CURL_BLOB_COPY;
	curl_easy_setopt(easy, option, &blob);
}

static void
set_trust(CURL *easy, const HttpTrust *trust)
{
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
	if (trust->ca_certificate != NULL)
		set_blob(easy, CURLOPT_CAINFO_BLOB, trust->ca_certificate);
	else if (guc_http_ca_file[0] != '\0')
		curl_easy_setopt(easy, CURLOPT_CAINFO, guc_http_ca_file);
	if (trust->client_certificate == NULL)
		return;
	/* libcurl looks for a connection by the certificate, not by the key that proves it is ours */
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(easy, CURLOPT_SSLCERTTYPE, "PEM");
	set_blob(easy, CURLOPT_SSLCERT_BLOB, trust->client_certificate);
	curl_easy_setopt(easy, CURLOPT_SSLKEYTYPE, "PEM");
	set_blob(easy, CURLOPT_SSLKEY_BLOB, trust->client_key);
}

/* What every request has in common. */
static void
set_limits(HttpTransfer *transfer)
{
	CURL	   *easy = transfer->easy;

	curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error_buffer);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* a thread that waits for a name server is left behind, not waited for */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	/* not what the environment of the server says */
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
	curl_easy_setopt(easy, CURLOPT_USERAGENT, USER_AGENT);
	transfer_install_callbacks(transfer);
}

static bool
add_header(struct curl_slist **list, const char *header)
{
	struct curl_slist *longer = curl_slist_append(*list, header);

	if (longer == NULL)
		return false;
	*list = longer;
	return true;
}

static bool
set_headers(HttpTransfer *transfer, const HttpRequest *request)
{
	char		condition[300];
	bool		good = add_header(&transfer->public_headers, "Accept: application/json") &&
		add_header(&transfer->public_headers, "Expect:");

	if (request->if_none_match != NULL)
	{
		snprintf(condition, sizeof(condition), "If-None-Match: %s", request->if_none_match);
		good = good && add_header(&transfer->public_headers, condition);
	}
	for (struct curl_slist *header = transfer->public_headers; header != NULL; header = header->next)
		good = good && add_header(&transfer->headers, header->data);
	if (request->authorization != NULL)
		good = good && add_header(&transfer->headers, request->authorization);
	for (int i = 0; i < HTTP_MOST_HEADERS; i++)
		good = good && (request->headers[i] == NULL || add_header(&transfer->headers, request->headers[i]));
	return good;
}

static void
set_method(CURL *easy, const HttpRequest *request)
{
	const char *body = request->form != NULL ? request->form : request->body;

	/* a POST without a body has one that is empty */
	if (body == NULL && request->method != NULL && strcmp(request->method, "POST") == 0)
		body = "";
	if (body != NULL)
		curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, body);
	if (request->method != NULL && strcmp(request->method, "GET") != 0)
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
}

/* See http_transfer.h. */
const char *
transfer_set_url(HttpTransfer *transfer, const char *url)
{
	char	   *scheme = NULL;
	char	   *user = NULL;
	const char *problem = NULL;

	curl_free(transfer->host);
	transfer->host = NULL;
	if (curl_url_set(transfer->url, CURLUPART_URL, url, CURLU_PATH_AS_IS) != CURLUE_OK ||
		curl_url_get(transfer->url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
		(strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
		problem = "the URL is not one of http or https";
	else if (curl_url_get(transfer->url, CURLUPART_USER, &user, 0) == CURLUE_OK)
		problem = "the URL has a user name in it";
	else if (curl_url_get(transfer->url, CURLUPART_HOST, &transfer->host, 0) != CURLUE_OK)
		problem = "the URL has no host";
	else if (transfer->host[0] == '[')
	{
		/* as it is written in amoro_meta.http_allowed_hosts */
		memmove(transfer->host, transfer->host + 1, strlen(transfer->host));
		transfer->host[strcspn(transfer->host, "]%")] = '\0';
	}
	transfer->plain = problem == NULL && strcmp(scheme, "http") == 0;
	curl_free(scheme);
	curl_free(user);
	if (problem == NULL && curl_easy_setopt(transfer->easy, CURLOPT_URL, url) != CURLE_OK)
		problem = "out of memory";
	return problem;
}

/* See http_transfer.h. */
const char *
transfer_prepare(HttpTransfer *transfer, const HttpRequest *request)
{
	if (!set_headers(transfer, request))
		return "out of memory";
	set_limits(transfer);
	set_trust(transfer->easy, &request->trust);
	curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers);
	set_method(transfer->easy, request);
	return transfer_set_url(transfer, request->url);
}
