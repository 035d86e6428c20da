/** Watches files by asking for their state: an editor's rename and a ConfigMap's swapped link look alike. */
import { statSync } from 'node:fs'

/** Never throws: a folder that may not be entered is one more state. */
function stateOf(file: string): string {
  try {
    const stat = statSync(file, { throwIfNoEntry: false })
    return stat === undefined ? 'absent' : `${stat.ino} ${stat.size} ${stat.mtimeMs}`
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
  let states = new Map<string, string>()
  let waiting = false
  const timer = setInterval(() => {
    let moved = false
    for (const [file, before] of states) {
      const now = stateOf(file)
      if (now === before) continue
      states.set(file, now)
      moved = true
    }
    const settled = waiting && !moved
    waiting = moved
    if (settled) changed()
  }, every)
  timer.unref()
  return {
    set(files) {
      states = new Map(files.map((file) => [file, states.get(file) ?? stateOf(file)]))
    },
    close() {
      clearInterval(timer)
    },
  }
}
