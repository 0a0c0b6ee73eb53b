/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: answering clang from the real files, and the list of the answers. Never: reads a file that clang did not ask
 * for. */
#include "kernel/compile/shim_files.h"

#include <cstring>
#include <utility>

#include <llvm/ADT/IntrusiveRefCntPtr.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/xxhash.h>

#include "kernel/backend.h"

using namespace llvm;

/* --- the list ---------------------------------------------------------------------------------------------------- */

/* Notes an answer. Of two answers about a path that agree, the one with more detail is kept. If they do not agree, the
 * file has changed meanwhile. */
void FacetReads::note(const std::string &path, const facet_shim_read &answer)
{
    auto [place, added] = answers.emplace(path, answer);
    facet_shim_read &known = place->second;

    if (added || memcmp(&known, &answer, sizeof answer) == 0)
        return;
    if (known.kind == FACET_READ_PRESENT && answer.kind == FACET_READ_WHOLE)
        known = answer;
    else if (known.kind != FACET_READ_WHOLE || answer.kind != FACET_READ_PRESENT)
        cannotRepeat();
}

void FacetReads::missing(const std::string &path)
{
    note(path, {FACET_READ_MISSING, 0, 0, {0, 0}});
}

void FacetReads::found(const std::string &path, const vfs::Status &status)
{
    if (status.isDirectory())
        note(path, {FACET_READ_FOLDER, 0, 0, {0, 0}});
    else if (status.isRegularFile())
        note(path, {FACET_READ_PRESENT, 0, 0, {0, 0}});
    else
        cannotRepeat();
}

void FacetReads::read(const std::string &path, StringRef text)
{
    auto hash = xxh3_128bits(ArrayRef<uint8_t>(text.bytes_begin(), text.size()));

    note(path, {FACET_READ_WHOLE, 0, text.size(), {hash.low64, hash.high64}});
}

void FacetReads::report(facet_read_func each, void *context) const
{
    for (const auto &[path, answer] : answers)
        each(context, path.c_str(), &answer);
    if (!repeatable)
        each(context, nullptr, nullptr);
}

/* --- the file system --------------------------------------------------------------------------------------------- */

namespace
{

/* A file whose bytes are in memory already. */
class Kept final : public vfs::File
{
  public:
    Kept(vfs::Status about, std::unique_ptr<MemoryBuffer> bytes) : information(std::move(about)), text(std::move(bytes))
    {
    }

    ErrorOr<vfs::Status> status() override
    {
        return information;
    }

    ErrorOr<std::unique_ptr<MemoryBuffer>> getBuffer(const Twine &name, int64_t, bool, bool) override
    {
        return MemoryBuffer::getMemBufferCopy(text->getBuffer(), name);
    }

    std::error_code close() override
    {
        return {};
    }

  private:
    void setPath(const Twine &path) override
    {
        information = vfs::Status::copyWithNewName(information, path);
    }

    vfs::Status information;
    std::unique_ptr<MemoryBuffer> text;
};

class Recorder final : public vfs::ProxyFileSystem
{
  public:
    explicit Recorder(FacetReads &into) : ProxyFileSystem(vfs::getRealFileSystem()), reads(into)
    {
    }

    ErrorOr<vfs::Status> status(const Twine &path) override
    {
        auto answer = ProxyFileSystem::status(path);

        if (answer)
            reads.found(path.str(), *answer);
        else
            reads.missing(path.str());
        return answer;
    }

    bool exists(const Twine &path) override
    {
        return static_cast<bool>(status(path));
    }

    ErrorOr<std::unique_ptr<vfs::File>> openFileForRead(const Twine &path) override
    {
        auto file = ProxyFileSystem::openFileForRead(path);

        if (!file) {
            reads.missing(path.str());
            return file;
        }
        auto information = (*file)->status();
        if (information && !information->isRegularFile())
            reads.found(path.str(), *information);
        if (!information || !information->isRegularFile())
            return file;
        /* The last argument, volatile: the file is read, not mapped, so that its bytes cannot change. */
        auto text = (*file)->getBuffer(path, -1, true, true);
        if (!text) {
            reads.cannotRepeat();
            return text.getError();
        }
        reads.read(path.str(), (*text)->getBuffer());
        return std::make_unique<Kept>(*information, std::move(*text));
    }

    vfs::directory_iterator dir_begin(const Twine &path, std::error_code &error) override
    {
        reads.cannotRepeat();
        return ProxyFileSystem::dir_begin(path, error);
    }

  private:
    FacetReads &reads;
};

} // namespace

IntrusiveRefCntPtr<vfs::FileSystem> facet_shim_files(FacetReads &reads)
{
    return makeIntrusiveRefCnt<Recorder>(reads);
}
