/* Status names and the per-thread error message. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static __thread char message[sizeof((struct pd_kept_error *)0)->text];
static __thread int failed_part;

const char *pd_status_name(pd_status status)
{
    switch (status) {
#define NAME(name, value, text)                                                                              \
    case PD_##name:                                                                                          \
        return "PD_" #name;
        PD_STATUS_MAP(NAME)
#undef NAME
    }
    return "PD_UNKNOWN";
}

const char *pd_status_text(pd_status status)
{
    switch (status) {
#define TEXT(name, value, text)                                                                              \
    case PD_##name:                                                                                          \
        return text;
        PD_STATUS_MAP(TEXT)
#undef TEXT
    }
    return "unknown status";
}

const char *pd_error(void)
{
    return message;
}

pd_status pd_fail(pd_status status, const char *format, ...)
{
    /* The arguments may point into the old message, so the new text is made aside. */
    char text[sizeof message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(message, text, strlen(text) + 1);
    failed_part = 0;
    return status;
}

const char *pd_full_stop(const char *text)
{
    size_t n = strlen(text);
    return n && strchr(".?!", text[n - 1]) ? "" : ".";
}

void pd_error_add(const char *format, ...)
{
    size_t used = strlen(message);
    va_list args;
    va_start(args, format);
    vsnprintf(message + used, sizeof message - used, format, args);
    va_end(args);
}

void pd_error_lead(const char *format, ...)
{
    char text[sizeof message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s", message);
    memcpy(message, text, strlen(text) + 1);
}

void pd_error_set_part(int part)
{
    failed_part = part;
}
int pd_error_part(void)
{
    return failed_part;
}

void pd_error_keep(struct pd_kept_error *kept)
{
    memcpy(kept->text, message, strlen(message) + 1);
    kept->part = failed_part;
}

void pd_error_restore(struct pd_kept_error *kept)
{
    memcpy(message, kept->text, strlen(kept->text) + 1);
    failed_part = kept->part;
}

pd_status pd_no_memory(void)
{
    return pd_fail(PD_NO_MEMORY, "out of memory");
}
