/** Watches files by asking for their state: an editor's rename and a ConfigMap's swapped link look alike. */
import { statSync } from 'node:fs'

function stateOf(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false })
  return stat === undefined ? 'absent' : `${stat.ino} ${stat.size} ${stat.mtimeMs}`
}

export interface Watch {
  /** The files that count from now on. */
  set(files: readonly string[]): void
  close(): void
}

/** Calls `changed` at most once per `every` milliseconds in which a file changed. */
export function watchFiles(changed: () => void, every = 500): Watch {
  let states = new Map<string, string>()
  const timer = setInterval(() => {
    let any = false
    for (const [file, before] of states) {
      const now = stateOf(file)
      if (now === before) continue
      states.set(file, now)
      any = true
    }
    if (any) changed()
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
