/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file system as clang sees it, and clang's questions to it, which determine the result of a source with #include.
 *
 * Owns: the list of answers, one for each path. "There is no file" is an answer, too.
 * Never: gives clang other bytes than those whose hash is in the list.
 */
#ifndef FACET_KERNEL_COMPILE_SHIM_FILES_H
#define FACET_KERNEL_COMPILE_SHIM_FILES_H

#include <map>
#include <memory>
#include <string>

#include <llvm/Support/VirtualFileSystem.h>

#include "kernel/compile/shims.h"

class FacetReads
{
  public:
    void missing(const std::string &path);
    void found(const std::string &path, const llvm::vfs::Status &status);
    void read(const std::string &path, llvm::StringRef text);

    /* Notes a read that cannot be repeated: of a pipe, of a folder's list, of the time. */
    void cannotRepeat()
    {
        repeatable = false;
    }

    void report(facet_read_func each, void *context) const;

  private:
    void note(const std::string &path, const facet_shim_read &answer);

    std::map<std::string, facet_shim_read> answers; /* in order of path, so that the same compile gives the same list */
    bool repeatable = true;
};

/* The real files, with everything that is asked of them in `reads`. */
llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> facet_shim_files(FacetReads &reads);

#endif
