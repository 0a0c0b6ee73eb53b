/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: recognizing launchers by the words of a command line; see run_launcher.h. Never: reads a file. */
#include "run_launcher.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* How many commands inside commands are followed, and how many words of a command are read. */
enum { DEPTH = 8, WORDS = 64 };

#define CONTAINER "starts programs in a container"
#define ELSEWHERE "starts programs on another machine"
#define CLUSTER   "has a cluster start programs"
#define SERVICE   "has a service that is running already start programs"
#define USER      "starts programs without the variables by which they enter a virtual GPU"
#define ROOT      "starts programs where the files of a virtual GPU are not"

/* `subcommand`: the subcommands that start a program, with spaces around each; NULL: any words are a program. */
struct launcher {
    const char *name, *description, *subcommand;
};

static const struct launcher launchers[] = {
    {"podman", CONTAINER, " run exec start create compose kube "},
    {"docker", CONTAINER, " run exec start create compose "},
    {"nvidia-docker", CONTAINER, " run exec start create compose "},
    {"nerdctl", CONTAINER, " run exec start create compose "},
    {"docker-compose", CONTAINER, " run exec start up "},
    {"podman-compose", CONTAINER, " run exec start up "},
    {"apptainer", CONTAINER, " run exec shell instance "},
    {"singularity", CONTAINER, " run exec shell instance "},
    {"kubectl", CONTAINER, " run exec debug apply create "},
    {"buildah", CONTAINER, " run "},
    {"runc", CONTAINER, " run exec start create restore "},
    {"crun", CONTAINER, " run exec start create restore "},
    {"enroot", CONTAINER, " start exec "},
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
    {"bwrap", CONTAINER, NULL},
    {"firejail", CONTAINER, NULL},
    {"ssh", ELSEWHERE, NULL},
    {"rsh", ELSEWHERE, NULL},
    {"autossh", ELSEWHERE, NULL},
    {"mosh", ELSEWHERE, NULL},
    {"pdsh", ELSEWHERE, NULL},
    {"srun", CLUSTER, NULL},
    {"sbatch", CLUSTER, NULL},
    {"salloc", CLUSTER, NULL},
    {"qsub", CLUSTER, NULL},
    {"bsub", CLUSTER, NULL},
    {"condor_run", CLUSTER, NULL},
    {"condor_submit", CLUSTER, NULL},
    {"systemd-run", SERVICE, NULL},
    {"run0", SERVICE, NULL},
    {"systemctl", SERVICE, " start restart "},
    {"at", SERVICE, NULL},
    {"batch", SERVICE, NULL},
    {"tmux", SERVICE, NULL},
    {"screen", SERVICE, NULL},
    {"sudo", USER, NULL},
    {"su", USER, NULL},
    {"doas", USER, NULL},
    {"pkexec", USER, NULL},
    {"runuser", USER, NULL},
    {"chroot", ROOT, NULL},
    {"nsenter", ROOT, NULL},
};

/* Options that start no program when they are the launcher's only word. */
static const char *const idle_options[] = {"-V", "--version", "-h", "--help", "-ls", "-list"};

/* Words that may stand before the subcommand, as in `docker container run`. */
static const char *const group_words[] = {"container", "pod", "service", "play"};

/* The variables that a program needs to enter a virtual GPU. */
static const char *const entrance_variables[] = {"OPENCL_LAYERS", "FACET_VGPU_DIR"};

enum { UNLESS_OPTION = -1 };

/* A command that only runs another command. */
struct wrapper {
    const char *name;
    const char *valued;      /* the letters of its options that take a value */
    const char *valued_long; /* its long options whose value may be the next word */
    int words;               /* how many words come before the command; UNLESS_OPTION: one, if no option is first */
    const char *text_letter; /* the letter of its option whose value is a shell's text; "": none */
};

static const struct wrapper wrappers[] = {
    {"env", "uCS", " --unset --chdir ", 0, ""},
    {"nice", "n", " --adjustment ", 0, ""},
    {"nohup", "", "", 0, ""},
    {"setsid", "", "", 0, ""},
    {"time", "of", " --output --format ", 0, ""},
    {"timeout", "ks", " --kill-after --signal ", 1, ""},
    {"stdbuf", "ioe", " --input --output --error ", 0, ""},
    {"ionice", "cn", " --class --classdata ", 0, ""},
    {"taskset", "", "", 1, ""},
    {"chrt", "TPD", " --sched-runtime --sched-period --sched-deadline ", 1, ""},
    {"numactl", "CNmipwP", " --membind --cpunodebind --physcpubind --interleave --preferred ", 0, ""},
    {"prlimit", "", "", 0, ""},
    {"setarch", "", "", UNLESS_OPTION, ""},
    {"linux32", "", "", 0, ""},
    {"linux64", "", "", 0, ""},
    {"i386", "", "", 0, ""},
    {"x86_64", "", "", 0, ""},
    {"sshpass", "pfdP", "", 0, ""},
    {"sg", "", "", 1, "c"},
    {"setpriv", "", " --reuid --regid --groups --inh-caps --bounding-set --ambient-caps ", 0, ""},
    {"unshare", "SGRw", " --setuid --setgid --root --wd ", 0, ""},
    {"flock", "wE", " --timeout --conflict-exit-code ", 1, "c"},
    {"script", "EImotTBO", " --log-in --log-out --log-io --log-timing ", 1, "c"},
    {"watch", "nq", " --interval --equexit ", 0, ""},
    {"xargs", "adEILnPs", " --arg-file --delimiter --max-lines --max-args --max-procs --max-chars ", 0, ""},
    {"parallel", "jnNaLsIP", " --jobs --max-args --arg-file --max-lines ", 0, ""},
    {"exec", "a", "", 0, ""},
    {"command", "", "", 0, ""},
    {"builtin", "", "", 0, ""},
    {"eval", "", "", 0, ""},
    {"busybox", "", "", 0, ""},
    {"strace", "eoPpsuEI", "", 0, ""},
    {"ltrace", "eonpsuaAlxF", "", 0, ""},
    {"perf", "eopCF", "", 1, ""}, /* the word before the command is stat, record or trace */
    {"valgrind", "", "", 0, ""},
    {"xvfb-run", "efnps", "", 0, ""},
    {"dbus-run-session", "", " --config-file --dbus-daemon ", 0, ""},
};

static const char *const shells[] = {"sh", "bash", "dash", "ash", "zsh", "ksh"};

/* Words of a shell behind which a command begins. */
static const char *const before_commands[] = {"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time"};

static bool find_launcher(char *const *command, int depth, struct run_launcher *ret_launcher);
static bool find_in_script(const char *script, int depth, struct run_launcher *ret_launcher);
static bool find_in_split_text(const struct wrapper *env, const char *text, char *const *following, bool cleared,
                               int depth, struct run_launcher *ret_launcher);

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

/* Whether the word is "NAME=value". */
static bool is_assignment(const char *word)
{
    size_t length = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

    return length && !isdigit((unsigned char)word[0]) && word[length] == '=';
}

/* Searches the words for a subcommand that starts a program. The launcher's own options may come first. A word directly
 * behind an option may be its value, so the search ends only at another word that is no such subcommand. */
static bool has_starting_subcommand(const struct launcher *launcher, char *const *words)
{
    bool may_be_value = false;
    char wanted[64];

    if (!launcher->subcommand)
        return words[0] &&
               (words[1] || !is_among(words[0], idle_options, sizeof idle_options / sizeof idle_options[0]));
    for (; *words; words++) {
        snprintf(wanted, sizeof wanted, " %s ", *words);
        if (strstr(launcher->subcommand, wanted))
            return true;
        if (**words != '-' && !may_be_value &&
            !is_among(*words, group_words, sizeof group_words / sizeof group_words[0]))
            return false;
        may_be_value = **words == '-' && !strchr(*words, '=');
    }
    return false;
}

static bool is_launcher(const char *name, char *const *words, struct run_launcher *ret_launcher)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        if (strcmp(name, launchers[i].name) != 0 || !has_starting_subcommand(&launchers[i], words))
            continue;
        snprintf(ret_launcher->name, sizeof ret_launcher->name, "%s", name);
        ret_launcher->description = launchers[i].description;
        return true;
    }
    return false;
}

/*
 * Points to the letter `flag` of a word such as "-vS"; with a `flag` of 0, to the first letter that takes a value.
 * NULL: there is no such letter, or it is a part of an earlier letter's value.
 */
static const char *letter_in(const char *option, const char *valued, char flag)
{
    for (const char *position = option + 1; option[1] != '-' && *position; position++) {
        if (*position == flag)
            return position;
        if (strchr(valued, *position))
            return flag ? NULL : position;
    }
    return NULL;
}

static bool takes_next_word(const struct wrapper *wrapper, const char *option)
{
    const char *letter = letter_in(option, wrapper->valued, 0);
    char wanted[64];

    if (option[1] != '-')
        return letter && !letter[1];
    snprintf(wanted, sizeof wanted, " %s ", option);
    return strstr(wrapper->valued_long, wanted);
}

static bool is_env(const struct wrapper *wrapper)
{
    return strcmp(wrapper->name, "env") == 0;
}

static bool clears_environment(const struct wrapper *wrapper, const char *option)
{
    if (is_env(wrapper))
        return strcmp(option, "-") == 0 || strcmp(option, "--ignore-environment") == 0 ||
               letter_in(option, wrapper->valued, 'i');
    return strcmp(wrapper->name, "exec") == 0 && letter_in(option, wrapper->valued, 'c');
}

/* `command -v sudo` does not run sudo. */
static bool prints_path_only(const struct wrapper *wrapper, const char *option)
{
    return strcmp(wrapper->name, "command") == 0 && (letter_in(option, "", 'v') || letter_in(option, "", 'V'));
}

/* An option's value, in the same word or the next: "-S TEXT", "-STEXT", "--split-string=TEXT". NULL: another option. */
static const char *text_of(char *const *words, const char *valued, char letter, const char *name)
{
    const char *position = letter ? letter_in(*words, valued, letter) : NULL;
    size_t length = strlen(name);

    if (position)
        return position[1] ? position + 1 : words[1];
    if (strncmp(*words, name, length) != 0)
        return NULL;
    return (*words)[length] == '=' ? *words + length + 1 : (*words)[length] ? NULL : words[1];
}

static bool is_entrance(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof entrance_variables / sizeof entrance_variables[0]; i++)
        if (strlen(entrance_variables[i]) == length && strncmp(name, entrance_variables[i], length) == 0)
            return true;
    return false;
}

/* If this word is an option that removes the variables, its name for a warning; else NULL. */
static const char *option_that_removes(const struct wrapper *wrapper, char *const *words)
{
    const char *name;

    if (clears_environment(wrapper, *words))
        return is_env(wrapper) ? "env -i" : "exec -c";
    if (!is_env(wrapper))
        return NULL;
    if (**words == '-')
        return (name = text_of(words, wrapper->valued, 'u', "--unset")) && is_entrance(name, strlen(name)) ? "env -u"
                                                                                                           : NULL;
    size_t length = strcspn(*words, "=");
    return (*words)[length] && !(*words)[length + 1] && is_entrance(*words, length) ? "env" : NULL;
}

static bool report_cleared_environment(const char *option, struct run_launcher *ret_launcher)
{
    *ret_launcher = (struct run_launcher){.description = USER};
    snprintf(ret_launcher->name, sizeof ret_launcher->name, "%s", option);
    return true;
}

/* Whether the wrapper's only operand is a shell's text. */
static bool takes_text(const struct wrapper *wrapper)
{
    static const char *const names[] = {"watch", "eval", "sg"};

    return is_among(wrapper->name, names, sizeof names / sizeof names[0]);
}

static int words_before(const struct wrapper *wrapper, char *const *words)
{
    return wrapper->words == UNLESS_OPTION ? *words && **words != '-' : wrapper->words;
}

/* Searches a command that gets more words when it runs, from xargs or parallel. */
static bool find_with_unknown_words(char *const *command, int depth, struct run_launcher *ret_launcher)
{
    char more[] = "...", *words[WORDS + 2];
    size_t count = 0;

    for (; command[count] && count < WORDS; count++)
        words[count] = command[count];
    words[count] = more;
    words[count + 1] = NULL;
    return count && find_launcher(words, depth + 1, ret_launcher);
}

/* Searches the command that a wrapper runs. `words` begins behind the wrapper's name. */
static bool find_behind_wrapper(const struct wrapper *wrapper, char *const *words, int depth,
                                struct run_launcher *ret_launcher)
{
    int words_left = words_before(wrapper, words);
    const char *text, *clearing_option = NULL, *option;

    for (; *words && (**words == '-' || words_left > 0 || (is_env(wrapper) && is_assignment(*words))); words++) {
        if (strcmp(*words, "--") == 0)
            continue;
        if ((option = option_that_removes(wrapper, words)))
            clearing_option = option;
        if (**words != '-') {
            words_left -= words_left > 0;
            continue;
        }
        if (is_env(wrapper) && (text = text_of(words, wrapper->valued, 'S', "--split-string")))
            return find_in_split_text(wrapper, text, words + (strstr(*words, text) ? 1 : 2), clearing_option, depth,
                                      ret_launcher);
        if (wrapper->text_letter[0] && (text = text_of(words, wrapper->valued, wrapper->text_letter[0], "--command")))
            return find_in_script(text, depth, ret_launcher);
        if (prints_path_only(wrapper, *words))
            return false;
        if (takes_next_word(wrapper, *words) && words[1])
            words++;
    }
    if (clearing_option && *words)
        return report_cleared_environment(clearing_option, ret_launcher);
    if (*words && !words[1] && takes_text(wrapper))
        return find_in_script(*words, depth, ret_launcher);
    if (strcmp(wrapper->name, "xargs") == 0 || strcmp(wrapper->name, "parallel") == 0)
        return find_with_unknown_words(words, depth, ret_launcher);
    return find_launcher(words, depth + 1, ret_launcher);
}

/* ---- a shell's text ---- */

#define BLANKS       " \t"
#define COMMAND_ENDS ";|&()\n"

/* The unread text, and a buffer for its words. As quotes are dropped, the words fit into as many bytes as the text. */
struct text {
    const char *position;
    char *buffer;
};

/* "&>" does not end a command: it begins a redirection. */
static bool is_end(const char *position)
{
    return !*position || (strchr(COMMAND_ENDS, *position) && (position[0] != '&' || position[1] != '>'));
}

/* Skips blanks between words; continued lines and comments count as blanks. */
static void skip_blanks(struct text *text)
{
    for (;;) {
        text->position += strspn(text->position, BLANKS);
        if (text->position[0] == '#')
            text->position += strcspn(text->position, "\n");
        else if (text->position[0] == '\\' && text->position[1] == '\n')
            text->position += 2;
        else
            return;
    }
}

static char *read_word(struct text *text)
{
    char *word = text->buffer, quote = 0;

    for (; *text->position && (quote || (!strchr(BLANKS, *text->position) && !is_end(text->position)));
         text->position++) {
        if (quote != '\'' && text->position[0] == '\\' && text->position[1]) {
            if (*++text->position != '\n')
                *text->buffer++ = *text->position;
        } else if (quote ? *text->position == quote : *text->position == '"' || *text->position == '\'') {
            quote = quote ? 0 : *text->position;
        } else {
            *text->buffer++ = *text->position;
            if (!quote && strchr("<>", *text->position) && text->position[1] == '&') /* in ">&2", '&' ends no command */
                *text->buffer++ = *++text->position;
        }
    }
    *text->buffer++ = 0;
    return word;
}

static bool precedes_command(const char *word)
{
    return is_assignment(word) || is_among(word, before_commands, sizeof before_commands / sizeof before_commands[0]);
}

/* Whether the word begins a redirection: "2>/dev/null", "&>". */
static bool is_redirection(const char *word)
{
    const char *position = word + strspn(word, "0123456789&");

    return *position == '<' || *position == '>';
}

/* Reads one command of the text, up to its end, without its redirections, and searches it. */
static bool find_in_command(struct text *text, int depth, struct run_launcher *ret_launcher)
{
    char *words[WORDS + 1];
    bool is_file = false;
    size_t count = 0;

    for (skip_blanks(text); !is_end(text->position); skip_blanks(text)) {
        char *word = read_word(text);
        bool redirects = !is_file && is_redirection(word);
        if (!is_file && !redirects && count < WORDS && (count || !precedes_command(word)))
            words[count++] = word;
        is_file = redirects && strchr("<>&", word[strlen(word) - 1]);
    }
    words[count] = NULL;
    return find_launcher(words, depth + 1, ret_launcher);
}

static bool find_in_script(const char *script, int depth, struct run_launcher *ret_launcher)
{
    FACET_CLEANUP_FREE char *buffer = malloc(strlen(script) + 1);
    struct text text = {.position = script, .buffer = buffer};

    while (buffer && *text.position) {
        text.buffer = buffer;
        if (find_in_command(&text, depth, ret_launcher))
            return true;
        text.position += *text.position != 0;
    }
    return false;
}

/* Searches `env -S TEXT REST...`: env takes the words of TEXT, options and assignments too, as its own arguments. */
static bool find_in_split_text(const struct wrapper *env, const char *script, char *const *following, bool cleared,
                               int depth, struct run_launcher *ret_launcher)
{
    FACET_CLEANUP_FREE char *buffer = malloc(strlen(script) + 1);
    struct text text = {.position = script, .buffer = buffer};
    char ignore[] = "-i", *words[WORDS + 1];
    size_t count = 0;

    if (cleared)
        words[count++] = ignore;
    while (buffer && count < WORDS && *(text.position += strspn(text.position, BLANKS COMMAND_ENDS)))
        words[count++] = read_word(&text);
    while (count < WORDS && *following)
        words[count++] = *following++;
    words[count] = NULL;
    return depth < DEPTH && find_behind_wrapper(env, words, depth + 1, ret_launcher);
}

static bool find_in_shell_command(char *const *words, int depth, struct run_launcher *ret_launcher)
{
    static const char *const valued[] = {"-o", "+o", "-O", "+O", "--rcfile", "--init-file"};

    for (; *words && (**words == '-' || **words == '+'); words++) {
        if (is_among(*words, valued, sizeof valued / sizeof valued[0]) && words[1])
            words++;
        else if (**words == '-' && (*words)[1] != '-' && strchr(*words, 'c'))
            return words[1] && find_in_script(words[1], depth, ret_launcher);
    }
    return false;
}

/* Searches the commands in `find ... -exec COMMAND ...` and `gdb ... --args COMMAND ...`. */
static bool find_behind_exec_option(char *const *words, int depth, struct run_launcher *ret_launcher)
{
    static const char *const before[] = {"-exec", "-execdir", "-ok", "-okdir", "-args", "--args"};

    for (; *words; words++)
        if (is_among(*words, before, sizeof before / sizeof before[0]) &&
            find_launcher(words + 1, depth + 1, ret_launcher))
            return true;
    return false;
}

static bool find_launcher(char *const *command, int depth, struct run_launcher *ret_launcher)
{
    if (!command[0] || depth > DEPTH)
        return false;
    const char *name = base_of(command[0]);
    if (is_launcher(name, command + 1, ret_launcher))
        return true;
    if (is_among(name, shells, sizeof shells / sizeof shells[0]))
        return find_in_shell_command(command + 1, depth, ret_launcher);
    if (strcmp(name, "find") == 0 || strcmp(name, "gdb") == 0)
        return find_behind_exec_option(command + 1, depth, ret_launcher);
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++)
        if (strcmp(name, wrappers[i].name) == 0)
            return find_behind_wrapper(&wrappers[i], command + 1, depth, ret_launcher);
    return false;
}

bool run_launcher_find(char *const *command, struct run_launcher *ret_launcher)
{
    return find_launcher(command, 0, ret_launcher);
}
