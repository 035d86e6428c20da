/** CPU time and memory of processes and their descendants, from /proc. Linux only. */
import { readdirSync, readFileSync } from 'node:fs'

/** Clock ticks a second, fixed at 100 on every Linux that Node runs on. */
const ticks = 100

/** Null: the process has ended, before its file was opened (ENOENT), or between that and the read (ESRCH). */
function textOf(file: string): string | null {
  try {
    return readFileSync(file, 'latin1')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESRCH') return null
    throw error
  }
}

/** Fields of /proc/PID/stat after the name, which may hold spaces. */
function stat(pid: number): string[] | null {
  const text = textOf(`/proc/${pid}/stat`)
  return text === null ? null : text.slice(text.lastIndexOf(')') + 2).split(' ')
}

/** The process and its descendants. */
export function tree(root: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    const fields = /^\d+$/.test(name) ? stat(Number(name)) : null
    if (fields !== null) parents.set(Number(name), Number(fields[1]))
  }
  const found = [root]
  for (const pid of found)
    for (const [child, parent] of parents) if (parent === pid) found.push(child)
  return found
}

/** User and system CPU time in microseconds, of children that ended too. */
export function cpu(pids: readonly number[]): number {
  let sum = 0
  for (const pid of pids) {
    const fields = stat(pid)
    // utime, stime, cutime, cstime: fields 14 to 17 of proc(5)
    if (fields !== null) for (const field of [11, 12, 13, 14]) sum += Number(fields[field])
  }
  return (sum * 1e6) / ticks
}

/** Resident memory in bytes. */
export function rss(pids: readonly number[]): number {
  let sum = 0
  for (const pid of pids) {
    const text = textOf(`/proc/${pid}/status`) ?? ''
    sum += Number(/^VmRSS:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) * 1024
  }
  return sum
}

/** CPU microseconds in this process, and the result. */
export function timed<T>(work: () => T): { us: number; result: T } {
  const before = process.cpuUsage()
  const result = work()
  const { user, system } = process.cpuUsage(before)
  return { us: user + system, result }
}

/** CPU microseconds of one call in this process. */
export const cpuOf = (work: () => unknown, calls: number): number =>
  timed(() => {
    for (let n = 0; n < calls; n++) work()
  }).us / calls
