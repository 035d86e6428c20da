/** Watches files by asking for their state: an editor's rename and a ConfigMap's swapped link look alike. */
import { stat } from 'node:fs/promises'

/** Never rejects: a folder that may not be entered is one more state. */
async function stateOf(file: string): Promise<string> {
  try {
    const { ino, size, mtimeMs } = await stat(file)
    return `${ino} ${size} ${mtimeMs}`
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code)
  }
}

export interface Watch {
  /** The files that count from now on. */
  set(files: readonly string[]): void
  close(): void
}

/**
 * Calls `changed` where a file changed and then stayed as it is for `every` milliseconds: half of a file that is
 * still being written may be a whole one, with half of the suppliers.
 */
export function watchFiles(changed: () => void, every = 250): Watch {
  /** null: not known yet. */
  let states = new Map<string, string | null>()
  let looking = false
  let waiting = false
  let closed = false

  /** Whether a file changed since the last look. */
  async function moved(): Promise<boolean> {
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

  async function look(): Promise<void> {
    if (looking) return
    looking = true
    const any = await moved()
    looking = false
    const settled = waiting && !any
    waiting = any
    if (settled && !closed) changed()
  }
  const timer = setInterval(() => void look(), every)
  timer.unref()

  async function lookAtNew(of: Map<string, string | null>): Promise<void> {
    for (const [file, state] of of) if (state === null) of.set(file, await stateOf(file))
  }

  return {
    set(files) {
      states = new Map(files.map((file) => [file, states.get(file) ?? null]))
      void lookAtNew(states)
    },
    close() {
      closed = true
      clearInterval(timer)
    },
  }
}
