/** Watches files by polling `stat`, which detects an editor's rename and a ConfigMap's changed link alike. */
import { currentVersions, type FileVersions } from './files.ts'

/**
 * Calls `changed` after a file changed and then stayed the same for `every` milliseconds: the first half of a file that
 * is still being written may be valid, with half of the suppliers.
 *
 * @param changed called at most once for each change
 * @param every milliseconds between two looks, and for which the files must stay the same
 */
export function watchFiles(changed: () => void, every = 250) {
  let known: FileVersions = new Map()
  let polling = false
  let waiting = false
  let closed = false

  /** Whether a file changed since the last poll. */
  async function anyChanged(): Promise<boolean> {
    const before = known
    const now = await currentVersions(before.keys())
    // Replaced meanwhile: the next poll compares with what was read.
    if (before !== known) return false
    known = now
    for (const [file, version] of now) if (version !== before.get(file)) return true
    return false
  }

  async function poll(): Promise<void> {
    if (polling) return
    polling = true
    const any = await anyChanged()
    polling = false
    const settled = waiting && !any
    waiting = any
    if (settled && !closed) changed()
  }
  const timer = setInterval(() => void poll(), every).unref()

  return {
    /** Replaces the watched files by those that were read last. A file that has changed since is a change. */
    set(files: FileVersions): void {
      known = files
      waiting = false
    },
    close(): void {
      closed = true
      clearInterval(timer)
    },
  }
}
