/* docs_mdoc.c — words and pages of mdoc(7), the language of manual pages. */
#include <stdio.h>
#include <string.h>

#include "docs.h"

#define LINE_BYTES 72u /* mandoc warns of source lines above 80. */

/*
 * A word that is text: backslashes are no escapes. With `exact` its dashes can be copied; else they
 * are hyphens.
 */
static void print_word(const char *word, size_t n_bytes, bool exact)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if (word[i] == '\\') {
            (void)fputs("\\e", stdout);
        } else if (word[i] == '-' && exact) {
            (void)fputs("\\-", stdout);
        } else {
            (void)fputc(word[i], stdout);
        }
    }
}

void docs_text(const char *text)
{
    size_t column = 0;
    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        if (column > 0 && column + 1 + n > LINE_BYTES) {
            (void)fputc('\n', stdout);
            column = 0;
        }
        if (column > 0) {
            (void)fputc(' ', stdout);
        } else if (text[0] == '.' || text[0] == '\'') {
            (void)fputs("\\&", stdout); /* Or it would be a macro. */
        }
        print_word(text, n, n > 2 && memcmp(text, "--", 2) == 0);
        column += n + 1;
        bool end = text[n] == '\0' || text[n - 1] == '.';
        if (end) {
            (void)fputc('\n', stdout);
            column = 0;
        }
        text += n;
        text += strspn(text, " ");
    }
}

/* An argument of a macro, whatever it looks like. */
static void print_argument(const char *text)
{
    (void)fputs(" \\&", stdout);
    print_word(text, strlen(text), true);
}

void docs_item(const char *macro, const char *name, const char *kind)
{
    (void)printf(".It %s", macro);
    print_argument(name);
    if (kind[0] != '\0') {
        (void)fputs(strcmp(macro, "Cm") == 0 ? " : Ar" : " Ar", stdout);
        print_argument(kind);
    }
    (void)fputc('\n', stdout);
}

void docs_head(const char *title, int section, const char *name, const char *brief)
{
    (void)fputs(".Dd " PS_MANUAL_DATE "\n.Dt ", stdout);
    for (const char *at = title; *at != '\0'; at++) {
        (void)fputc(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at, stdout);
    }
    (void)printf(" %d\n.Os\n.Sh NAME\n.Nm %s\n.Nd %s\n", section, name, brief);
}
