/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the grammar of a request's head, as far as RFC 9112 defines it. Never: accepts a head that the RFC leaves open.
 */
#include "head.h"

#include <string.h>
#include <strings.h>

#include "request.h"

/* A part of the head; not terminated. */
struct text {
    const char *at;
    size_t length;
};

/* The headers seen so far. */
struct headers {
    uint32_t count;
    bool length, host, encoded;
    bool must_have_host; /* a request of HTTP/1.1 (RFC 9112, 3.2) */
};

static bool is_token(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte));
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_hex(char byte)
{
    return is_digit(byte) || (byte >= 'A' && byte <= 'F') || (byte >= 'a' && byte <= 'f');
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static bool is_word(struct text text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.at, word, text.length) == 0;
}

/* Reads the line at `at`, without its end. *ret_next: the next line. False: the line's end has not arrived. */
static bool next_line(const char *at, const char *end, struct text *ret_line, const char **ret_next)
{
    const char *feed = memchr(at, '\n', (size_t)(end - at));

    if (!feed)
        return false;
    *ret_line = (struct text){at, (size_t)(feed - at)};
    if (ret_line->length && feed[-1] == '\r')
        ret_line->length--;
    *ret_next = feed + 1;
    return true;
}

static struct text trimmed_text(struct text text)
{
    while (text.length && is_blank(text.at[0])) {
        text.at++;
        text.length--;
    }
    while (text.length && is_blank(text.at[text.length - 1]))
        text.length--;
    return text;
}

static bool refuse_head(struct head_refusal *refusal, unsigned http, enum facet_status status, const char *argument,
                        const char *message)
{
    refusal->http = http;
    facet_error_argument(&refusal->error, status, argument, "%s", message);
    return false;
}

static bool refuse_bad_request(struct head_refusal *refusal, const char *argument, const char *message)
{
    return refuse_head(refusal, 400, FACET_INVALID_ARGUMENT, argument, message);
}

/* ---- the first line ---- */

static bool is_encoded_slash(const char *code)
{
    return code[1] == '2' && (code[2] == 'F' || code[2] == 'f');
}

/*
 * Checks a path from the root. Each percent code has two digits. It may not encode a NUL, which would end the path
 * early, or a '/', which would separate two parts, because the library decodes the path before it is split.
 */
static bool check_target(struct text target, struct head_refusal *refusal)
{
    uint32_t arguments = 0;

    if (!target.length || target.at[0] != '/')
        return refuse_bad_request(refusal, "path", "the path of the request: expected one that begins with '/'");
    for (size_t i = 0; i < target.length; i++) {
        unsigned char byte = (unsigned char)target.at[i];

        if (byte <= ' ' || byte == 0x7f)
            return refuse_bad_request(refusal, "path",
                                      "the path of the request holds a control character: expected it encoded");
        arguments += byte == '&';
        if (arguments >= HEAD_ARGUMENTS_MAX)
            return refuse_bad_request(refusal, "path",
                                      "the path of the request: expected at most 16 arguments behind '?'");
        if (byte != '%')
            continue;
        if (i + 2 >= target.length || !is_hex(target.at[i + 1]) || !is_hex(target.at[i + 2]))
            return refuse_bad_request(refusal, "path",
                                      "the path of the request: expected two hexadecimal digits behind '%'");
        if (target.at[i + 1] == '0' && target.at[i + 2] == '0')
            return refuse_bad_request(refusal, "path", "the path of the request holds a NUL byte");
        if (is_encoded_slash(target.at + i) && !memchr(target.at, '?', i))
            return refuse_bad_request(refusal, "path",
                                      "the path of the request holds an encoded '/': no name and no id has one");
    }
    return true;
}

static bool check_version(struct text version, struct head_refusal *refusal)
{
    bool is_http = version.length == 8 && strncmp(version.at, "HTTP/", 5) == 0 && is_digit(version.at[5]) &&
                   version.at[6] == '.' && is_digit(version.at[7]);

    if (!is_http)
        return refuse_bad_request(refusal, "request", "the first line of the request: expected 'METHOD PATH HTTP/1.1'");
    if (version.at[5] != '1')
        return refuse_head(refusal, 505, FACET_INVALID_ARGUMENT, "request", "the version of HTTP: expected 1.1 or 1.0");
    return true;
}

static bool check_first_line(struct text line, struct headers *headers, struct head_refusal *refusal)
{
    const char *end = line.at + line.length, *path = memchr(line.at, ' ', line.length);
    const char *version = path ? memchr(path + 1, ' ', (size_t)(end - path - 1)) : NULL;

    if (line.length > HEAD_LINE_MAX)
        return refuse_head(refusal, 414, FACET_OUT_OF_RANGE, "path", "the path of the request: expected at most 8 KiB");
    for (const char *at = line.at; path && at < path; at++)
        path = is_token(*at) ? path : NULL;
    if (!path || path == line.at || !version)
        return refuse_bad_request(refusal, "request", "the first line of the request: expected 'METHOD PATH HTTP/1.1'");
    headers->must_have_host = end[-1] != '0';
    refusal->no_body = path - line.at == 4 && memcmp(line.at, "HEAD", 4) == 0;
    return check_target((struct text){path + 1, (size_t)(version - path - 1)}, refusal) &&
           check_version((struct text){version + 1, (size_t)(end - version - 1)}, refusal);
}

/* ---- headers ---- */

/*
 * Accepts digits alone, whose value may be too large for any type. HTTP allows blanks behind them, but the library
 * would take these for a part of the number, and answer with its own page.
 */
static bool check_length(struct text value, struct headers *headers, struct head_refusal *refusal)
{
    unsigned long long length = 0;

    if (headers->length)
        return refuse_bad_request(refusal, "body", "Content-Length is there twice: expected one");
    headers->length = true;
    for (size_t i = 0; i < value.length; i++)
        if (!is_digit(value.at[i]))
            return refuse_bad_request(refusal, "body", "Content-Length: expected a number of bytes");
    if (!value.length)
        return refuse_bad_request(refusal, "body", "Content-Length: expected a number of bytes");
    if (is_blank(value.at[value.length]))
        return refuse_bad_request(refusal, "body", "Content-Length: expected no blank behind the number");
    for (size_t i = 0; i < value.length && length <= REQUEST_BODY_MAX; i++)
        length = length * 10 + (unsigned)(value.at[i] - '0');
    if (length > REQUEST_BODY_MAX)
        return refuse_head(refusal, 413, FACET_OUT_OF_RANGE, "body", "body: expected at most 65536 bytes");
    return true;
}

static bool check_header(struct text name, struct text value, struct headers *headers, struct head_refusal *refusal)
{
    if (is_word(name, "Content-Length"))
        return check_length(value, headers, refusal);
    if (is_word(name, "Cookie")) /* the library would parse it */
        return refuse_bad_request(refusal, "headers", "Cookie: expected none");
    if (is_word(name, "Expect") && !is_word(value, "100-continue"))
        return refuse_head(refusal, 417, FACET_INVALID_ARGUMENT, "headers", "Expect: expected 100-continue");
    if (is_word(name, "Host") && headers->host)
        return refuse_bad_request(refusal, "headers", "Host is there twice: expected one");
    headers->host = headers->host || is_word(name, "Host");
    headers->encoded = headers->encoded || is_word(name, "Transfer-Encoding");
    return true;
}

static bool check_line(struct text line, struct headers *headers, struct head_refusal *refusal)
{
    const char *colon = memchr(line.at, ':', line.length);

    if (++headers->count > HEAD_HEADERS_MAX)
        return refuse_head(refusal, 431, FACET_OUT_OF_RANGE, "headers",
                           "the headers of the request: expected at most 100");
    for (size_t i = 0; i < line.length; i++)
        if (((unsigned char)line.at[i] < ' ' && line.at[i] != '\t') || line.at[i] == 0x7f)
            return refuse_bad_request(refusal, "headers", "a header holds a control character");
    for (const char *at = line.at; colon && at < colon; at++)
        colon = is_token(*at) ? colon : NULL;
    if (!colon || colon == line.at)
        return refuse_bad_request(refusal, "headers",
                                  "a header: expected 'Name: value', with no blank before the colon");
    struct text value = {colon + 1, (size_t)(line.at + line.length - colon - 1)};
    return check_header((struct text){line.at, (size_t)(colon - line.at)}, trimmed_text(value), headers, refusal);
}

/* Checks the headers together. Refuses a body without a length: if it were malformed, the library would answer
 * itself. */
static bool check_all_lines(const struct headers *headers, struct head_refusal *refusal)
{
    if (headers->must_have_host && !headers->host)
        return refuse_bad_request(refusal, "headers", "Host is not there: expected one in a request of HTTP/1.1");
    if (headers->encoded && headers->length)
        return refuse_bad_request(refusal, "body",
                                  "Content-Length beside Transfer-Encoding: expected Content-Length alone");
    if (headers->encoded)
        return refuse_head(refusal, 411, FACET_INVALID_ARGUMENT, "body",
                           "a body in Transfer-Encoding: expected one whose Content-Length says how long it is");
    return true;
}

/* Judges a head whose end has not arrived after `size` bytes, `line_size` of them in an unfinished first line. */
static enum head_verdict judge_unfinished(size_t size, size_t line_size, struct head_refusal *refusal)
{
    if (line_size > HEAD_LINE_MAX) {
        refuse_head(refusal, 414, FACET_OUT_OF_RANGE, "path", "the path of the request: expected at most 8 KiB");
        return HEAD_BAD;
    }
    if (size <= HEAD_MAX)
        return HEAD_INCOMPLETE;
    refuse_head(refusal, 431, FACET_OUT_OF_RANGE, "headers", "the headers of the request: expected at most 16 KiB");
    return HEAD_BAD;
}

enum head_verdict head_judge(const char *data, size_t size, struct head_refusal *ret_refusal)
{
    const char *at = data, *end = data + size;
    struct headers headers = {0};
    struct text line;

    *ret_refusal = (struct head_refusal){0};
    /* Some callers send an extra line end after their last request. */
    while (at < end && (*at == '\n' || (*at == '\r' && at + 1 < end && at[1] == '\n')))
        at += *at == '\r' ? 2 : 1;
    if (!next_line(at, end, &line, &at))
        return judge_unfinished(size, (size_t)(end - at), ret_refusal);
    if (!check_first_line(line, &headers, ret_refusal))
        return HEAD_BAD;
    while (next_line(at, end, &line, &at) && (size_t)(at - data) <= HEAD_MAX) {
        if (!line.length)
            return check_all_lines(&headers, ret_refusal) ? HEAD_GOOD : HEAD_BAD;
        if (!check_line(line, &headers, ret_refusal))
            return HEAD_BAD;
    }
    return judge_unfinished(size, 0, ret_refusal);
}
