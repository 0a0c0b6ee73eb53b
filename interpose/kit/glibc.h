/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An interposer is loaded into programs of other systems, for example of a container's image. So it asks for no symbol
 * version that glibc 2.28 lacks: versions bind to those that glibc had before it moved libdl and libpthread into libc.
 * glibc.c has the functions that glibc 2.28 has under other names only. tests/unit/interpose/test_glibc.py checks
 * the libraries.
 *
 * The compiler includes this file first in each file of an interposer.
 *
 * Owns: the versions of symbols. Never: used in a build with a sanitizer, whose own functions have no versions.
 */
#ifndef FACET_INTERPOSE_GLIBC_H
#define FACET_INTERPOSE_GLIBC_H
#ifndef __ASSEMBLER__

#ifdef __x86_64__
#define FACET_GLIBC_FIRST  "GLIBC_2.2.5"
#define FACET_GLIBC_DLINFO "GLIBC_2.3.3"
#else /* aarch64 */
#define FACET_GLIBC_FIRST  "GLIBC_2.17"
#define FACET_GLIBC_DLINFO "GLIBC_2.17"
#endif

#define FACET_GLIBC_BIND(symbol, version) __asm__(".symver " #symbol ", " #symbol "@" version)

FACET_GLIBC_BIND(dladdr, FACET_GLIBC_FIRST);
FACET_GLIBC_BIND(dlclose, FACET_GLIBC_FIRST);
FACET_GLIBC_BIND(dlinfo, FACET_GLIBC_DLINFO);
FACET_GLIBC_BIND(dlopen, FACET_GLIBC_FIRST);
FACET_GLIBC_BIND(dlsym, FACET_GLIBC_FIRST);
FACET_GLIBC_BIND(pthread_create, FACET_GLIBC_FIRST);
FACET_GLIBC_BIND(pthread_getspecific, FACET_GLIBC_FIRST);
FACET_GLIBC_BIND(pthread_key_create, FACET_GLIBC_FIRST);
FACET_GLIBC_BIND(pthread_mutex_trylock, FACET_GLIBC_FIRST);
FACET_GLIBC_BIND(pthread_once, FACET_GLIBC_FIRST);
FACET_GLIBC_BIND(pthread_setspecific, FACET_GLIBC_FIRST);
FACET_GLIBC_BIND(pthread_sigmask, FACET_GLIBC_FIRST);

#endif
#endif
