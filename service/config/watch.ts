/** Watches files by polling `stat`, which detects an editor's rename and a ConfigMap's changed link alike. */
import { stat } from 'node:fs/promises'

/** Never rejects: an error code is a state, too. */
async function stateOf(file: string): Promise<string> {
  try {
    const { ino, size, mtimeMs } = await stat(file)
    return `${ino} ${size} ${mtimeMs}`
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code)
  }
}

export interface Watch {
  /** Replaces the watched files. */
  set(files: readonly string[]): void
  close(): void
}

/**
 * Calls `changed` after a file changed and then stayed the same for `every` milliseconds: the first half of a file that
 * is still being written may be valid, with half of the suppliers.
 */
export function watchFiles(changed: () => void, every = 250): Watch {
  /** null: not read yet. */
  let states = new Map<string, string | null>()
  let polling = false
  let waiting = false
  let closed = false

  /** Whether a file changed since the last poll. */
  async function anyChanged(): Promise<boolean> {
    const of = states
    let any = false
    for (const [file, before] of of) {
      const now = await stateOf(file)
      if (now === before) continue
      of.set(file, now)
      any ||= before !== null
    }
    return any
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
  const timer = setInterval(() => void poll(), every)
  timer.unref()

  async function readNewStates(of: Map<string, string | null>): Promise<void> {
    for (const [file, state] of of) if (state === null) of.set(file, await stateOf(file))
  }

  return {
    set(files) {
      states = new Map(files.map((file) => [file, states.get(file) ?? null]))
      void readNewStates(states)
    },
    close() {
      closed = true
      clearInterval(timer)
    },
  }
}
