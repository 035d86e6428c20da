/** What other processes took of the machine meanwhile: figures beside a busy neighbour are his as well. Linux only. */
import { readFileSync } from 'node:fs'
import { cpu, tree } from '../proxy/process.ts'

/** Microseconds that all cores were busy and idle since boot. */
function cores(): { busy: number; all: number } {
  const [line = ''] = readFileSync('/proc/stat', 'latin1').split('\n', 1)
  // user nice system idle iowait irq softirq steal; proc(5)
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number)
  const all = ticks.reduce((sum, each) => sum + each, 0)
  return { busy: (all - ticks[3]! - ticks[4]!) * 10_000, all: all * 10_000 }
}

/** The share since now that was neither idle nor of this process and its children; ask while they are gone. */
export function watchMachine(): () => number {
  const own = () => cpu(tree(process.pid))
  const [before, mine] = [cores(), own()]
  return () => {
    const after = cores()
    const others = after.busy - before.busy - (own() - mine)
    return Math.max(0, others / (after.all - before.all))
  }
}
