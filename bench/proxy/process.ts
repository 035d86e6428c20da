/** What the kernel says of a process and everything below it. Linux only. */
import { readdirSync, readFileSync } from 'node:fs'

/** Clock ticks a second, fixed at 100 on every Linux that Node runs on. */
const ticks = 100

/** Fields of /proc/PID/stat after the name, which may hold spaces; null when the process is gone. */
function stat(pid: number): string[] | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return null
  }
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
    if (fields !== null) for (const at of [11, 12, 13, 14]) sum += Number(fields[at])
  }
  return (sum * 1e6) / ticks
}

/** Resident memory in bytes. */
export function rss(pids: readonly number[]): number {
  let sum = 0
  for (const pid of pids) {
    try {
      const text = readFileSync(`/proc/${pid}/status`, 'latin1')
      sum += Number(/^VmRSS:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) * 1024
    } catch {}
  }
  return sum
}
