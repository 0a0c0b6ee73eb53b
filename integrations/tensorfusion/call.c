/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the beginning and end of a call, its messages to the log callback, and the result for each status of Facet.
 * Never: runs the callback with a lock held, or with the level FATAL.
 */
#include "facade.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t callback_mutex = PTHREAD_MUTEX_INITIALIZER;
static AccelLogCallback registered_callback;

AccelResult AccelRegisterLogCallback(AccelLogCallback callback)
{
    pthread_mutex_lock(&callback_mutex);
    registered_callback = callback;
    pthread_mutex_unlock(&callback_mutex);
    return ACCEL_SUCCESS;
}

static AccelLogCallback current_callback(void)
{
    pthread_mutex_lock(&callback_mutex);
    AccelLogCallback callback = registered_callback;
    pthread_mutex_unlock(&callback_mutex);
    return callback;
}

void facade_begin(struct facade_call *call, const char *function)
{
    call->function = function;
    call->held_lock = NULL;
    call->count = 0;
}

static void send_messages(const struct facade_call *call)
{
    AccelLogCallback callback = call->count ? current_callback() : NULL;
    uint32_t message_count = call->count < FACADE_MESSAGES ? call->count : FACADE_MESSAGES;
    char summary[96];

    if (!callback)
        return;
    for (uint32_t i = 0; i < message_count; i++)
        callback(call->messages[i].level, call->messages[i].text);
    if (call->count > message_count) {
        snprintf(summary, sizeof summary, "%s: %u more messages", call->function, call->count - message_count);
        callback("WARN", summary);
    }
}

AccelResult facade_leave(struct facade_call *call, AccelResult result)
{
    if (call->held_lock)
        pthread_rwlock_unlock(call->held_lock);
    call->held_lock = NULL;
    send_messages(call);
    return result;
}

static void keep_message(struct facade_call *call, const char *level, const char *format, va_list arguments)
{
    if (call->count < FACADE_MESSAGES) {
        struct facade_message *message = &call->messages[call->count];
        int length = snprintf(message->text, sizeof message->text, "%s: ", call->function);

        message->level = level;
        if (length > 0 && (size_t)length < sizeof message->text)
            vsnprintf(message->text + length, sizeof message->text - (size_t)length, format, arguments);
    }
    call->count++;
}

void facade_log(struct facade_call *call, const char *level, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    keep_message(call, level, format, arguments);
    va_end(arguments);
}

AccelResult facade_fail(struct facade_call *call, AccelResult result, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    keep_message(call, "ERROR", format, arguments);
    va_end(arguments);
    return result;
}

AccelResult facade_refuse(struct facade_call *call, const struct facet_error *error)
{
    return facade_fail(call, facade_result(error->status), "%s",
                       *error->message ? error->message : facet_status_text(error->status));
}

AccelResult facade_result(enum facet_status status)
{
    switch (status) {
    case FACET_OK:
        return ACCEL_SUCCESS;
    case FACET_INVALID_ARGUMENT:
    case FACET_OUT_OF_RANGE:
        return ACCEL_ERROR_INVALID_PARAM;
    case FACET_NOT_FOUND:
        return ACCEL_ERROR_NOT_FOUND;
    case FACET_UNSUPPORTED:
    case FACET_ABI_MISMATCH:
        return ACCEL_ERROR_NOT_SUPPORTED;
    case FACET_BUSY:
    case FACET_QUOTA:
    case FACET_NO_MEMORY:
    case FACET_NO_SPACE:
        return ACCEL_ERROR_RESOURCE_EXHAUSTED;
    case FACET_INTERNAL:
    case FACET_CORRUPT:
        return ACCEL_ERROR_INTERNAL;
    default:
        return ACCEL_ERROR_OPERATION_FAILED;
    }
}

void facade_text(char *target, size_t size, const char *source)
{
    size_t length = strnlen(source, size - 1);

    memcpy(target, source, length);
    target[length] = '\0';
}
