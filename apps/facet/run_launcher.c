/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what run_launcher.h says. Never: reads a file, or believes more than a command's words. */
#include "run_launcher.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { DEPTH = 8, WORDS = 64 };

#define CONTAINER "starts programs in a container"
#define ELSEWHERE "starts programs on another machine"
#define CLUSTER   "has a cluster start programs"
#define SERVICE   "has a service that is running already start programs"
#define USER      "starts programs without the variables by which they enter a virtual GPU"
#define ROOT      "starts programs where the files of a virtual GPU are not"

/* `only`: the subcommands that start a program, with spaces around each; NULL: whatever it is given. */
struct launcher {
    const char *name, *what, *only;
};

static const struct launcher launchers[] = {
    {"podman", CONTAINER, " run exec start create compose kube "},
    {"docker", CONTAINER, " run exec start create compose container "},
    {"nerdctl", CONTAINER, " run exec start create compose "},
    {"docker-compose", CONTAINER, " run exec start up "},
    {"podman-compose", CONTAINER, " run exec start up "},
    {"apptainer", CONTAINER, " run exec shell instance "},
    {"singularity", CONTAINER, " run exec shell instance "},
    {"kubectl", CONTAINER, " run exec debug apply create "},
    {"crictl", CONTAINER, " run exec start "},
    {"ctr", CONTAINER, " run task tasks t "},
    {"lxc", CONTAINER, " exec launch start "},
    {"incus", CONTAINER, " exec launch start "},
    {"lxc-execute", CONTAINER, NULL},
    {"lxc-attach", CONTAINER, NULL},
    {"lxc-start", CONTAINER, NULL},
    {"systemd-nspawn", CONTAINER, NULL},
    {"machinectl", CONTAINER, " shell start login "},
    {"distrobox", CONTAINER, " enter "},
    {"distrobox-enter", CONTAINER, NULL},
    {"toolbox", CONTAINER, " run enter "},
    {"flatpak", CONTAINER, " run "},
    {"snap", CONTAINER, " run "},
    {"ssh", ELSEWHERE, NULL},
    {"mosh", ELSEWHERE, NULL},
    {"pdsh", ELSEWHERE, NULL},
    {"srun", CLUSTER, NULL},
    {"sbatch", CLUSTER, NULL},
    {"qsub", CLUSTER, NULL},
    {"bsub", CLUSTER, NULL},
    {"condor_run", CLUSTER, NULL},
    {"condor_submit", CLUSTER, NULL},
    {"systemd-run", SERVICE, NULL},
    {"run0", SERVICE, NULL},
    {"systemctl", SERVICE, " start restart "},
    {"at", SERVICE, NULL},
    {"batch", SERVICE, NULL},
    {"sudo", USER, NULL},
    {"su", USER, NULL},
    {"doas", USER, NULL},
    {"pkexec", USER, NULL},
    {"runuser", USER, NULL},
    {"chroot", ROOT, NULL},
    {"nsenter", ROOT, NULL},
};

/* Commands that only run another one, with the letters of their options that take a value in the next word, and how
 * many words come before the command. */
struct wrapper {
    const char *name, *valued;
    int words;
};

static const struct wrapper wrappers[] = {
    {"env", "uCS", 0},       {"nice", "n", 0},     {"nohup", "", 0},    {"setsid", "", 0},       {"time", "of", 0},
    {"timeout", "ks", 1},    {"stdbuf", "ioe", 0}, {"ionice", "cn", 0}, {"taskset", "", 1},      {"chrt", "", 1},
    {"numactl", "CNmip", 0}, {"exec", "a", 0},     {"command", "", 0},  {"strace", "eoPpsu", 0},
};

static const char *const shells[] = {"sh", "bash", "dash", "ash", "zsh", "ksh"};

/* Words of a shell behind which a command begins. */
static const char *const before_commands[] = {"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time"};

static bool find(char *const *command, int depth, struct run_launcher *ret_launcher);

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool is_among(const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* "NAME=value". */
static bool is_assignment(const char *word)
{
    size_t length = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

    return length && !isdigit((unsigned char)word[0]) && word[length] == '=';
}

/* Options of their own, with or without values, come before a subcommand: any of the first words may be it. */
static bool starts_something(const struct launcher *launcher, char *const *words)
{
    char wanted[64];

    if (!launcher->only)
        return words[0];
    for (int i = 0; words[i] && i < 8; i++) {
        snprintf(wanted, sizeof wanted, " %s ", words[i]);
        if (strstr(launcher->only, wanted))
            return true;
    }
    return false;
}

static bool is_launcher(const char *name, char *const *words, struct run_launcher *ret_launcher)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        if (strcmp(name, launchers[i].name) != 0 || !starts_something(&launchers[i], words))
            continue;
        snprintf(ret_launcher->name, sizeof ret_launcher->name, "%s", name);
        ret_launcher->what = launchers[i].what;
        return true;
    }
    return false;
}

static bool takes_a_value(const struct wrapper *wrapper, const char *option)
{
    return option[1] && !option[2] && strchr(wrapper->valued, option[1]);
}

static bool clears(const struct wrapper *wrapper, const char *option)
{
    return strcmp(wrapper->name, "env") == 0 &&
           (strcmp(option, "-") == 0 || strcmp(option, "-i") == 0 || strcmp(option, "--ignore-environment") == 0);
}

/* `words`: what follows the wrapper's name. */
static bool behind_wrapper(const struct wrapper *wrapper, char *const *words, int depth,
                           struct run_launcher *ret_launcher)
{
    int left = wrapper->words;
    bool cleared = false;

    for (; *words && **words == '-'; words++) {
        if (strcmp(*words, "--") == 0) {
            words++;
            break;
        }
        cleared = cleared || clears(wrapper, *words);
        if (takes_a_value(wrapper, *words) && words[1])
            words++;
    }
    while (*words && (left > 0 || (strcmp(wrapper->name, "env") == 0 && is_assignment(*words)))) {
        left -= left > 0;
        words++;
    }
    if (cleared && *words) {
        *ret_launcher = (struct run_launcher){.name = "env -i", .what = USER};
        return true;
    }
    return find(words, depth + 1, ret_launcher);
}

/* ---- a shell's text ---- */

#define BETWEEN " \t"
#define ENDS    ";|&()\n" /* a command */

/* What is left to read, and where its words go: without quotes and with their ends they need no more room than it. */
struct text {
    const char *at;
    char *room;
};

static char *read_word(struct text *text)
{
    char *word = text->room, quote = 0;

    for (; *text->at && (quote || !strchr(BETWEEN ENDS, *text->at)); text->at++) {
        if (quote ? *text->at == quote : *text->at == '"' || *text->at == '\'')
            quote = quote ? 0 : *text->at;
        else
            *text->room++ = *text->at;
    }
    *text->room++ = 0;
    return word;
}

static bool leads(const char *word)
{
    return is_assignment(word) || is_among(word, before_commands, sizeof before_commands / sizeof before_commands[0]);
}

/* One command, up to what ends it. */
static bool in_command(struct text *text, int depth, struct run_launcher *ret_launcher)
{
    char *words[WORDS + 1];
    size_t count = 0;

    for (;;) {
        text->at += strspn(text->at, BETWEEN);
        if (!*text->at || strchr(ENDS, *text->at))
            break;
        char *word = read_word(text);
        if (count < WORDS && (count || !leads(word)))
            words[count++] = word;
    }
    words[count] = NULL;
    return find(words, depth + 1, ret_launcher);
}

static bool in_text(const char *script, int depth, struct run_launcher *ret_launcher)
{
    FACET_CLEANUP_FREE char *room = malloc(strlen(script) + 1);
    struct text text = {.at = script, .room = room};

    while (room && *text.at) {
        text.room = room;
        if (in_command(&text, depth, ret_launcher))
            return true;
        text.at += *text.at != 0;
    }
    return false;
}

static bool in_shell(char *const *words, int depth, struct run_launcher *ret_launcher)
{
    for (; *words && **words == '-'; words++)
        if ((*words)[1] != '-' && strchr(*words, 'c'))
            return words[1] && in_text(words[1], depth, ret_launcher);
    return false;
}

static bool find(char *const *command, int depth, struct run_launcher *ret_launcher)
{
    if (!command[0] || depth > DEPTH)
        return false;
    const char *name = base_of(command[0]);
    if (is_launcher(name, command + 1, ret_launcher))
        return true;
    if (is_among(name, shells, sizeof shells / sizeof shells[0]))
        return in_shell(command + 1, depth, ret_launcher);
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++)
        if (strcmp(name, wrappers[i].name) == 0)
            return behind_wrapper(&wrappers[i], command + 1, depth, ret_launcher);
    return false;
}

bool run_launcher_find(char *const *command, struct run_launcher *ret_launcher)
{
    return find(command, 0, ret_launcher);
}
