/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: lld, in process. Never: prints; its messages are returned. */
#include "kernel/compile/shims.h"

#include <cstring>
#include <string>

#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>

LLD_HAS_DRIVER(elf)

int facet_shim_lld(const char *const *arguments, size_t count, char **ret_text)
{
    std::string text;
    llvm::raw_string_ostream stream(text);
    const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};

    lld::Result result = lld::lldMain({arguments, count}, stream, stream, drivers);
    *ret_text = strdup(stream.str().c_str());
    return result.retCode;
}
