/** What a figure depends on: machine, versions, commit, and what other processes took of the machine meanwhile. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { cpu, tree } from './process.ts'

/** The first line that a program prints; null: it is not installed. */
export function firstLine(program: string, ...args: string[]): string | null {
  const { error, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  return error === undefined ? `${stdout}${stderr}`.split('\n')[0]!.trim() : null
}

export const haproxyVersion = () => firstLine('haproxy', '-v')?.split(' 20')[0] ?? null

/** Microseconds since boot, of all cores: those that they were busy, and all. Linux only. */
function cores(): { busy: number; all: number } {
  const [line = ''] = readFileSync('/proc/stat', 'latin1').split('\n', 1)
  // user nice system idle iowait irq softirq steal; proc(5)
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number)
  const all = ticks.reduce((sum, tick) => sum + tick, 0)
  return { busy: (all - ticks[3]! - ticks[4]!) * 10_000, all: all * 10_000 }
}

/** Returns the share of the machine that other processes took since the call; null: the system does not tell. */
function watchMachine(): () => number | null {
  if (!existsSync('/proc/stat')) return () => null
  const ownCpu = () => cpu(tree(process.pid))
  const [before, mine] = [cores(), ownCpu()]
  return () => {
    const after = cores()
    const others = after.busy - before.busy - (ownCpu() - mine)
    return Math.max(0, others / (after.all - before.all))
  }
}

/** Call it at the start, and the function that it returns at the end, after the children: it returns the facts. */
export function watchFacts(): (programs: readonly string[]) => string {
  const began = performance.now()
  const load = loadavg()[0]!.toFixed(2)
  const others = watchMachine()
  const commit = firstLine('git', '-C', import.meta.dirname, 'describe', '--always', '--dirty')
  return (programs) => {
    const share = others()
    return [
      `${new Date().toISOString().slice(0, 16).replace('T', ' ')}, ${Math.round((performance.now() - began) / 1000)} s`,
      `${availableParallelism()} x ${cpus()[0]?.model ?? 'unknown CPU'}`,
      ...[`Node ${process.version}`, ...programs, `commit ${commit ?? 'unknown'}`],
      `load average before ${load}`,
      ...(share === null ? [] : [`${Math.round(share * 100)} % of the machine taken by others`]),
    ].join(', ')
  }
}
