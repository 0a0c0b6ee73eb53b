/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest inside a guest, without an operating system. It finds the function that was passed through twice, and uses
 * it.
 *
 * Owns: the inner machine, which QEMU starts by the Multiboot Specification 0.6.96: 32 bits, flat memory, no
 * interrupts. Never: returns; a write to port 0xf4 (isa-debug-exit) ends the machine.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PORT_SERIAL 0x3f8
#define PORT_END    0xf4
#define EDU         UINT32_C(0x11e81234)
#define EDU_BUFFER  UINT32_C(0x40000)
#define TRIES       UINT32_C(100000000)

/* The header by which QEMU recognises the program, and the program's entry. */
__asm__(".section .multiboot, \"a\"\n"
        ".align 4\n"
        ".long 0x1badb002, 0, -0x1badb002\n"
        ".text\n"
        ".globl nested_start\n"
        "nested_start:\n"
        "    mov $nested_stack + 16384, %esp\n"
        "    call nested_main\n");

extern char nested_stack[16384];
char nested_stack[16384] __attribute__((aligned(16)));
void nested_main(void);

static void out8(uint16_t port, uint8_t value)
{
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static void out32(uint16_t port, uint32_t value)
{
    __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port));
}

static uint32_t in32(uint16_t port)
{
    uint32_t value;

    __asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

static void print_text(const char *text)
{
    for (; *text; text++)
        out8(PORT_SERIAL, (uint8_t)*text);
}

static void check_that(bool good, const char *name)
{
    print_text(good ? "ok - " : "not ok - ");
    print_text(name);
    print_text("\n");
}

/* --- PCI, by its ports --- */

static void choose_register(uint32_t device, uint32_t at)
{
    out32(0xcf8, UINT32_C(0x80000000) | device << 11 | at);
}

static uint32_t config_read(uint32_t device, uint32_t at)
{
    choose_register(device, at);
    return in32(0xcfc);
}

static void config_write(uint32_t device, uint32_t at, uint32_t value)
{
    choose_register(device, at);
    out32(0xcfc, value);
}

static bool find_device(uint32_t *ret_device)
{
    for (uint32_t device = 0; device < 32; device++)
        if (config_read(device, 0) == EDU) {
            *ret_device = device;
            return true;
        }
    return false;
}

/* --- edu, as in QEMU's docs/specs/edu.txt --- */

static volatile uint32_t *bar;

static bool wait_until_clear(uint32_t at, uint32_t bit)
{
    for (uint32_t tries = 0; tries < TRIES; tries++)
        if (!(bar[at / 4] & bit))
            return true;
    return false;
}

static bool move_bytes(uint32_t from, uint32_t to, uint32_t command)
{
    bar[0x80 / 4] = from;
    bar[0x84 / 4] = 0;
    bar[0x88 / 4] = to;
    bar[0x8c / 4] = 0;
    bar[0x90 / 4] = 64;
    bar[0x94 / 4] = 0;
    bar[0x98 / 4] = command;
    return wait_until_clear(0x98, 1);
}

static volatile char source[64] = "from the inner guest's memory, and back";
static volatile char target[64];

static bool is_copied(void)
{
    bool equal = true;

    for (size_t i = 0; i < sizeof source; i++)
        equal &= source[i] == target[i];
    return equal;
}

static void work_with_device(uint32_t device)
{
    config_write(device, 4, config_read(device, 4) | 6); /* memory, bus mastering */
    bar = (volatile uint32_t *)(uintptr_t)(config_read(device, 0x10) & ~UINT32_C(15));
    check_that(bar && bar[0] == UINT32_C(0x010000ed), "the inner guest reads the function's BAR");
    bar[1] = UINT32_C(0x12345678);
    check_that(bar[1] == ~UINT32_C(0x12345678), "the function inverts a word that the inner guest writes");
    bar[2] = 6; /* to be replaced by 6!, which is 720 */
    check_that(wait_until_clear(0x20, 1) && bar[2] == 720, "the function computes for the inner guest");
    check_that(move_bytes((uint32_t)(uintptr_t)source, EDU_BUFFER, 1) &&
                   move_bytes(EDU_BUFFER, (uint32_t)(uintptr_t)target, 3),
               "the function moves the inner guest's memory, through two IOMMUs");
    check_that(is_copied(), "the bytes that came back are the original ones");
}

void nested_main(void)
{
    uint32_t device = 0;
    bool found = find_device(&device);

    check_that(found, "the inner guest finds the function");
    if (found)
        work_with_device(device);
    for (;;)
        out8(PORT_END, 0);
}
