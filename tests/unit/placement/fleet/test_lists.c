/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the accepted forms of lists, and of the messages about wrong lists. Never: reads a file. */
#include "fixtures.h"

static enum facet_status jobs_of(const char *text, struct facet_job_list **ret_list, struct facet_error *error)
{
    return facet_job_list_parse(text, strlen(text), "jobs.csv", ret_list, error);
}

/* The text begins with a byte order mark, and has an empty line. */
static void test_columns_are_found_by_name(void **state)
{
    static const char text[] = "\xef\xbb\xbfqos,gpu_spec,num_gpu,gpu_milli,cpu_milli,memory_mib,name\r\n"
                               "LS,\"T4|P100\",1,460,6000,12288,\"a \"\"b\"\", c\"\r\n"
                               "\r\n"
                               "BE,,0,,1000.0,1,d";
    struct facet_job_list *list = NULL;
    size_t count = 0;

    (void)state;
    assert_int_equal(jobs_of(text, &list, NULL), FACET_OK);
    const struct facet_fleet_job *jobs = facet_job_list_items(list, &count);

    assert_int_equal(count, 2);
    assert_string_equal(jobs[0].name, "a \"b\", c");
    assert_string_equal(jobs[0].request.gpu_spec, "T4|P100");
    assert_int_equal(jobs[0].request.gpu_milli, 460);
    assert_int_equal(jobs[0].request.memory_bytes, UINT64_C(12288) << 20);
    assert_int_equal(jobs[0].timed, 0);
    assert_int_equal(jobs[1].request.num_gpu, 0);
    assert_int_equal(jobs[1].request.cpu_milli, 1000);
    facet_job_list_free(list);
}

static void test_first_five_columns_are_enough(void **state)
{
    struct facet_job_list *list = NULL;
    size_t count = 0;

    (void)state;
    assert_int_equal(jobs_of("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,2,8,1000\n", &list, NULL), FACET_OK);
    assert_int_equal(facet_job_list_items(list, &count)->request.num_gpu, 8);
    assert_string_equal(facet_job_list_items(list, &count)->request.gpu_spec, "");
    facet_job_list_free(list);
}

static void test_node_list_is_parsed(void **state)
{
    static const char text[] = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,32000,262144,0,\n";
    struct facet_node_list *list = NULL;
    size_t count = 0;

    (void)state;
    assert_int_equal(facet_node_list_parse(text, strlen(text), "nodes.csv", &list, NULL), FACET_OK);
    const struct facet_fleet_node *nodes = facet_node_list_items(list, &count);

    assert_int_equal(count, 2);
    assert_string_equal(nodes[0].name, "n0");
    assert_string_equal(nodes[0].model, "P100");
    assert_int_equal(nodes[0].gpus, 2);
    assert_int_equal(nodes[1].memory_bytes, UINT64_C(262144) << 20);
    facet_node_list_free(list);
    facet_node_list_free(NULL);
    facet_job_list_free(NULL);
}

static void test_wrong_lines_are_named(void **state)
{
    static const struct {
        const char *text, *fragment;
    } cases[] = {
        {"", "jobs.csv: empty"},
        {"\n\n", "jobs.csv: empty"},
        {"cpu_milli,num_gpu\n1,1\n", "jobs.csv:1: column gpu_milli: '': expected this heading"},
        {"cpu_milli,num_gpu,gpu_milli\n", "no jobs, expected at least one"},
        {"cpu_milli,num_gpu,gpu_milli,num_gpu\n1,1,1,1\n", "jobs.csv:1: column num_gpu: 'num_gpu': expected each"},
        {"cpu_milli,num_gpu,gpu_milli\n1,1,100\n1,x,100\n", "jobs.csv:3: column num_gpu: 'x': expected a whole number"},
        {"cpu_milli,num_gpu,gpu_milli\n-1,1,100\n", "jobs.csv:2: column cpu_milli: '-1': expected"},
        {"cpu_milli,num_gpu,gpu_milli\n1.5,1,100\n", "jobs.csv:2: column cpu_milli: '1.5': expected"},
        {"cpu_milli,num_gpu,gpu_milli\n99999999999999999999,1,1\n", "column cpu_milli: '99999999999999999999'"},
        {"cpu_milli,num_gpu,gpu_milli\n1,17,100\n", "column num_gpu: '17': expected a whole number up to 16"},
        {"cpu_milli,num_gpu,gpu_milli\n1,1,1001\n", "column gpu_milli: '1001': expected a whole number up to 1000"},
        {"cpu_milli,num_gpu,gpu_milli\n1,1,0\n", "column gpu_milli: '0': expected 1 to 1000"},
        {"cpu_milli,num_gpu,gpu_milli\n1,1\n", "column gpu_milli: '': expected"},
        {"cpu_milli,num_gpu,gpu_milli\n\"1,1,1\n", "jobs.csv:2: a quoted field without its closing quote"},
        {"cpu_milli,num_gpu,gpu_milli\n\"1\"x,1,1\n", "jobs.csv:2: text after a quoted field"},
        {"cpu_milli,num_gpu,gpu_milli,creation_time,deletion_time\n1,1,1,9,8\n", "column deletion_time: '8': expected"},
        {"name,cpu_milli,num_gpu,gpu_milli\n\"a\nb\",1,1,1\nc,1,1,y\n", "jobs.csv:4: column gpu_milli: 'y'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct facet_job_list *list = NULL;
        struct facet_error error = {0};

        assert_int_equal(jobs_of(cases[i].text, &list, &error), FACET_INVALID_ARGUMENT);
        assert_null(list);
        if (!strstr(error.message, cases[i].fragment))
            fail_msg("case %zu: '%s' does not say '%s'", i, error.message, cases[i].fragment);
    }
}

static void test_zero_bytes_and_long_lines(void **state)
{
    static char text[200000] = "cpu_milli,num_gpu,gpu_milli\n";
    struct facet_job_list *list = NULL;
    struct facet_error error = {0};

    (void)state;
    assert_int_equal(facet_job_list_parse(text, 40, "j", &list, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "zero byte"));
    memset(text + 28, ',', 100); /* behind the line of headings */
    assert_int_equal(facet_job_list_parse(text, 128, "j", &list, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "too many fields"));
    memset(text + 28, '7', sizeof text - 28);
    assert_int_equal(facet_job_list_parse(text, sizeof text, "j", &list, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "too long"));
}

static void test_model_is_wanted_where_there_are_gpus(void **state)
{
    static const char text[] = "sn,cpu_milli,gpu,model\na,1,2,\n";
    struct facet_node_list *list = NULL;
    struct facet_error error = {0};

    (void)state;
    assert_int_equal(facet_node_list_parse(text, strlen(text), NULL, &list, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "list:2: column model"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_are_found_by_name), cmocka_unit_test(test_first_five_columns_are_enough),
        cmocka_unit_test(test_node_list_is_parsed),       cmocka_unit_test(test_wrong_lines_are_named),
        cmocka_unit_test(test_zero_bytes_and_long_lines), cmocka_unit_test(test_model_is_wanted_where_there_are_gpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
